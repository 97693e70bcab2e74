"""The code panel's text: it equals the file, matching parts are aligned, and foreign text is never markup."""

from __future__ import annotations

import os
import re
from html import unescape
from types import SimpleNamespace

import pytest
from bokeh.document import Document

from app.features.code.code_html import (
    MACHINE,
    MIX,
    OCCUPANCY,
    PTX,
    SOURCE,
    CodeSide,
    coloured,
    lined_up,
    page_html,
    parts_of,
    ptx_of,
    shown,
    vector_words,
)
from app.features.code.code_panel import USUAL, CodePanel
from compute.devices.backends import backend
from compute.devices.cuda_source import Resources
from compute.labs import LABS
from compute.own.code_files import CodeFile, files_of_lab
from compute.own.code_tasks import LISTINGS, HostFunction, Listing
from compute.own.code_view import Instruction, KernelCode

HOSTILE = "# <script>alert(1)</script> <img src=x onerror=y>\nx = '\u202e</pre>'\n"


def text_of(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_the_text_is_that_of_the_file(lab):
    for file in files_of_lab(lab):
        lines = coloured(file.language, file.text)
        assert [text_of(line) for line in lines] == file.text.rstrip("\n").split("\n")


def test_a_kernel_in_a_string_has_the_colours_of_its_language():
    inside = '@compute @workgroup_size(8) fn f(a: f32) {\n    let x = a; // "why"\n}'
    text = f'"""The @compute of a docstring."""\nCODE = r"""\n{inside}\n"""\nCUDA = "__global__ void g(int n) {{}}"\n'
    lines = coloured("python", text)
    assert [text_of(line) for line in lines] == text.rstrip("\n").split("\n")
    assert list(lines[2:5]) == list(coloured("wgsl", inside))
    assert coloured("cuda", "__global__ void g(int n) {}")[0] in lines[6]
    assert lines[0] == '<span class="sd">"""The @compute of a docstring."""</span>'


@pytest.mark.parametrize("language", ["python", "cuda", "wgsl"])
def test_foreign_text_is_no_markup_and_hides_nothing(language):
    html = "\n".join(coloured(language, HOSTILE))
    assert not re.search(r"<(?!/?span)", html)
    assert "\u202e" not in html
    assert "\N{REPLACEMENT CHARACTER}" in html
    assert shown("a\tb\n") == "a\tb\n"


def side(tmp_path, name="own.py", text="x = 1\n", **more):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    kind = "gpu_cupy" if name.endswith(".cu") else "cpu_numba"
    return CodeSide(CodeFile("<b>Mine</b>", path, backend(kind)), **more)


def test_names_of_files_and_reasons_are_text(tmp_path):
    html = page_html(PTX, [side(tmp_path, "<i>.py", HOSTILE, refused="<u>why</u>", install="pip <x>")], "float32")
    assert not re.search(r"<(b|i|u|x)>", html)
    assert "pip &lt;x&gt;" in html


def test_parts_are_functions_and_what_notes_name():
    python = "import a\n\n\n@njit\ndef _load(x):\n    # part: Halo\n    return x\n\n\ndef step():\n    pass\n"
    assert parts_of("python", python) == {"load": 5, "part halo": 6, "step": 10}
    cuda = (
        "// x\n__device__ REAL load(const REAL* a,\n int n)\n{\n  if (n) { }\n  // part: halo\n}\n"
        'extern "C" __global__ void __launch_bounds__(256)\nstep(REAL* u)\n{\n}\n'
    )
    assert parts_of("cuda", cuda) == {"load": 2, "part halo": 6, "step": 9}
    wgsl = "fn load(x: f32) -> f32 {\n    // part: halo\n}\n@compute @workgroup_size(8)\nfn step() {}\n"
    assert parts_of("wgsl", wgsl) == {"load": 1, "part halo": 2, "step": 5}
    assert parts_of("python", "def (") == {}


def test_equal_parts_begin_in_the_same_row_and_no_line_is_lost():
    rows, marks = lined_up({"load": 3, "step": 10, "last": 12}, {"load": 8, "other": 9, "step": 11}, 14, 12)
    assert rows[0].index(3) == rows[1].index(8)
    assert rows[0].index(10) == rows[1].index(11)
    assert len(rows[0]) == len(rows[1])
    assert [n for n in rows[0] if n] == list(range(1, 15))
    assert [n for n in rows[1] if n] == list(range(1, 13))
    assert marks == [{3, 10}, {8, 11}]


def test_parts_in_another_order_stay_where_they_are():
    rows, marks = lined_up({"a": 1, "b": 5}, {"b": 1, "a": 5}, 6, 6)
    assert [n for n in rows[0] if n] == [n for n in rows[1] if n] == [1, 2, 3, 4, 5, 6]
    assert len(marks[0]) == 1


KERNEL = KernelCode(
    "add",
    (
        Instruction(0, "LDG.E", "R2, [R4]", "own.cu", 2),
        Instruction(16, "FADD", "R2, R2, <1>", "own.cu", 2),
        Instruction(32, "STG.E", "[R4], R2", "head.cuh", 1),
    ),
    Resources(64, 0, 0, 0, 0),
)
LISTING = Listing(
    "sm_90", ".visible .entry add(\n)\n{\n\t.loc 1 2\n\tadd.f32 \t%f1, %f2;\n}\n.more", {"add": KERNEL}, {"add": 96}
)


def test_machine_code_stands_below_its_lines(tmp_path):
    (tmp_path / "head.cuh").write_text("int in_head;\n")
    own = side(tmp_path, "own.cu", "// x\na += 1;\n", listing=LISTING)
    html = page_html(MACHINE, [own], "float32")
    text = text_of(html)
    assert text.index("own.cu:2  a += 1;") < text.index("LDG.E") < text.index("FADD")
    assert text.index("head.cuh:1  int in_head;") < text.index("STG.E")
    assert "<1>" not in html
    assert "R2, R2, <1>" in text
    source = page_html(SOURCE, [own], "float32")  # where each line has the number of its instructions
    assert "data-n='2' data-c='2'" in source  # and not that of line 1 of the other file
    assert "data-n='1' data-c" not in source
    assert ptx_of(LISTING.ptx, "add") == [".visible .entry add(", ")", "{", "\tadd.f32 \t%f1, %f2;", "}"]


def test_resources_and_occupancy_are_those_of_the_architecture(tmp_path):
    html = page_html(OCCUPANCY, [side(tmp_path, "own.cu", listing=LISTING)], "float32")
    # 64 registers: 65536 / (64 * 32) = 32 warps of 64
    assert re.search(r"<th>256</th><td>4</td><td>50 %</td>.*?<td>registers</td>", html)
    assert "<tr class='mine'><th>96</th>" in html
    mix = text_of(page_html(MIX, [side(tmp_path, "own.cu", listing=LISTING)], "float32"))
    assert "global memory267 %" in mix


def test_numbas_functions_say_how_wide_they_are(tmp_path):
    function = HostFunction(
        "loop", "array(float32, 1d, C)", ("loop:", "    vaddps %zmm0"), 7, 512, {"vector arithmetic": 1}
    )
    given = side(tmp_path, listing=Listing("", functions=(function,)))
    text = text_of(page_html(MACHINE, [given], "float32"))
    assert "Vectors of 512 bits: 16 float32 numbers an instruction at most." in text
    assert "7 more lines are not shown." in text
    assert "without PTX" in text_of(page_html(PTX, [given], "float32"))
    assert vector_words(0, "float32") == "No vectors: it computes with one number at a time."
    assert "8 float64" in vector_words(512, "float64")


def test_a_file_that_was_saved_anew_is_compiled_and_read_anew(tmp_path, monkeypatch):
    panel, asked = CodePanel(SimpleNamespace(document=Document())), []
    panel.architecture = SimpleNamespace(value=USUAL)
    monkeypatch.setattr(LISTINGS, "ask", lambda *request: asked.append(request) or SimpleNamespace(state="done"))
    file = side(tmp_path, "own.cu", "old").file
    assert file.text == "old"
    for _ in range(2):
        panel._job(file)
    assert len(asked) == 1
    file.path.write_text("new", encoding="utf-8")
    os.utime(file.path, ns=(0, 0))
    panel._job(file)
    assert len(asked) == 2
    assert file.text == "new"
