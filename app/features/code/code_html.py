"""HTML of the code panel: a file with syntax colours, machine code under its source lines, and tables.

The text of a file or a compiler is escaped and never becomes markup. Invisible characters and those that change the
direction of reading are shown as a replacement character, so that the code on the screen is the code that runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import Any

from pygments import highlight
from pygments.filter import Filter
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import CudaLexer, PythonLexer, WgslLexer
from pygments.token import Token

from app.page.markup import shown
from compute.own.code_files import KERNEL, CodeFile
from compute.own.code_tasks import HostFunction, Listing
from compute.own.code_view import Instruction, KernelCode, occupancy

SOURCE, PTX, MACHINE, MIX, OCCUPANCY = TABS = ("Source", "PTX", "Machine code", "Instructions", "Occupancy")
MOST_ROWS = 3000  # lines of machine code that a page receives
BLOCKS = (32, 64, 128, 256, 512, 1024)  # threads per block, in the table of occupancies
BITS = {"float32": 32, "float64": 64}
LEXERS = {"python": PythonLexer, "cuda": CudaLexer, "wgsl": WgslLexer}
KERNELS = {"@compute": WgslLexer, KERNEL: CudaLexer}  # by the mark of a kernel in a string of a Python file
STRING = Token.Literal.String
OUTSIDE = (STRING.Doc, STRING.Affix)  # docstrings, and the letters before a string
NOTE = re.compile(r"^\s*(?:#|//)\s*part:\s*(\S.*?)\s*$", re.MULTILINE)
BOUNDS, INSIDE = r"__launch_bounds__\([^()]*\)", r"[^;{}()]*(?:\([^()]*\)[^;{}()]*)*"
FUNCTION = re.compile(rf"^(?![ \t#/}}])(?:[^\n;{{}}()]|{BOUNDS})*?\b(\w+)\({INSIDE}\)\s*\{{", re.MULTILINE)
WGSL_FUNCTION = re.compile(r"^[^\S\n]*(?:@[^\n]*[^\S\n])?fn[^\S\n]+(\w+)", re.MULTILINE)
NO_PTX = "Numba on the CPU makes machine code at once, without PTX."
NO_OCCUPANCY = "Occupancy is a word for GPUs, where other warps run while one waits; a core has its vectors."
PARAGRAPH = "<p class='quiet'>{}</p>"


@dataclass(frozen=True)
class CodeSide:
    """The content of one side of the panel.

    listing: the compiler's output for the file, None if unavailable; refused: the reason; install: the command
    that installs a missing part; kernel: the name of the chosen kernel, "" for the first; doing: the progress of the
    job.
    """

    file: CodeFile
    listing: Listing | None = None
    refused: str = ""
    install: str = ""
    kernel: str = ""
    doing: str = ""


def page_html(tab: str, sides: Sequence[CodeSide], dtype: str) -> str:
    """Return the HTML of all sides, next to each other."""
    others = (_article(side, _listed(tab, side, dtype)) for side in sides)
    articles = _sources(sides) if tab == SOURCE else others
    return f"<div class='code sides{len(sides)}'>{''.join(articles)}</div>"


def _article(side: CodeSide, inside: str, facts: str = "") -> str:
    file = side.file
    head = f"<h3>{escape(shown(file.title))}</h3><code>{escape(shown(file.path.name))}</code><span>{facts}</span>"
    return f"<article class='{file.kind}'><header>{head}</header>{inside}</article>"


# -- the file


def _sources(sides: Sequence[CodeSide]) -> Iterator[str]:
    texts = [_text(side.file) for side in sides]
    rows = [list(range(1, text.count("\n") + 2)) for text in texts]
    marks: list[set[int]] = [set() for _ in sides]
    if len(sides) == 2:
        one, other = (parts_of(side.file.language, text) for side, text in zip(sides, texts, strict=True))
        rows, marks = lined_up(one, other, len(rows[0]), len(rows[1]))
    for side, text, numbers, named in zip(sides, texts, rows, marks, strict=True):
        counts = lines_of(side)
        most, total = max(counts.values(), default=1), sum(counts.values())
        lines = coloured(side.file.language, text)
        at = dict(enumerate(lines, start=1))
        body = "".join(_row(n, at.get(n, ""), counts.get(n, 0), most, n in named) for n in numbers)
        facts = f"{total} machine instructions from its lines" if total else ""
        yield _article(side, f"<pre>{body}</pre>", facts)


def _text(file: CodeFile) -> str:
    try:
        return file.text
    except OSError as error:
        return f"{file.path.name} cannot be read: {error.strerror}"


def _row(number: int, code: str, count: int, most: int, named: bool) -> str:
    if not number:
        return "<span class='row gap'>\n</span>"
    share = f" data-c='{count}' style='--w:{count / most:.2f}'" if count else ""
    kind = " named" if named else ""
    return f"<span class='row{kind}' data-n='{number}'{share}>{code}\n</span>"


class KernelsInStrings(Filter):
    """Colours the kernels in the strings of a Python file as WGSL or CUDA C."""

    def filter(self, lexer: Lexer | None, stream: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
        """Yield (type, text) of the tokens. A string's first and last token are its quotes."""
        for of_string, group in groupby(stream, lambda token: token[0] in STRING and token[0] not in OUTSIDE):
            tokens = list(group)
            text = "".join(part for _, part in tokens[1:-1])
            kernel = next((other for mark, other in KERNELS.items() if mark in text), None)
            if kernel and of_string:
                yield from (tokens[0], *_lexer(kernel).get_tokens(text), tokens[-1])
            else:
                yield from tokens


def _lexer(kind: type[Lexer]) -> Lexer:
    return kind(stripnl=False, ensurenl=False)


@lru_cache(maxsize=64)
def coloured(language: str, text: str) -> tuple[str, ...]:
    """Return each line of `text` as HTML."""
    lexer = _lexer(LEXERS[language])
    if language == "python":
        lexer.add_filter(KernelsInStrings())
    made = highlight(shown(text), lexer, HtmlFormatter(nowrap=True))
    return tuple(made.rstrip("\n").split("\n")) if made else ()


def _rows(file: CodeFile) -> dict[int, int]:
    """Return the row of the shown text by line of the file; empty if the file cannot be read."""
    try:
        return {number: row for row, number in enumerate(file.excerpt.numbers, start=1) if number}
    except OSError:
        return {}


def lines_of(side: CodeSide) -> dict[int, int]:
    """Return machine instructions by row of the shown text, over all its kernels or in the chosen one."""
    found: dict[int, int] = {}
    if side.listing is None:
        return found
    rows = _rows(side.file)
    for name, kernel in side.listing.kernels.items():
        if side.kernel in ("", name):
            for line, count in kernel.by_line(side.file.path.name).items():
                if line in rows:
                    found[rows[line]] = found.get(rows[line], 0) + count
    return found


def parts_of(language: str, text: str) -> dict[str, int]:
    """Return line numbers by part of a file: its functions, and the parts that comments `part: name` mark."""
    found = {f"part {hit[1].casefold()}": text.count("\n", 0, hit.start(1)) + 1 for hit in NOTE.finditer(text)}
    if language == "python":
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return found
        functions = [(node.name, node.lineno) for node in tree.body if isinstance(node, ast.FunctionDef)]
    else:
        pattern = WGSL_FUNCTION if language == "wgsl" else FUNCTION
        functions = [(hit[1], text.count("\n", 0, hit.start(1)) + 1) for hit in pattern.finditer(text)]
    for name, line in functions:
        found.setdefault(name.strip("_").casefold(), line)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def lined_up(
    first: Mapping[str, int], second: Mapping[str, int], first_lines: int, second_lines: int
) -> tuple[list[list[int]], list[set[int]]]:
    """Align two files so that parts of the same name begin in the same row.

    Return the line numbers of each row for both files, with 0 for a gap, and the line numbers at which the aligned
    parts begin. Parts in a different order are not aligned.
    """
    names = list(first), list(second)
    blocks = SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
    pairs = [(first[names[0][b.a + k]], second[names[1][b.b + k]]) for b in blocks for k in range(b.size)]
    rows: list[list[int]] = [[], []]
    done = [1, 1]
    for pair in (*pairs, (first_lines + 1, second_lines + 1)):
        for side, line in enumerate(pair):
            rows[side] += range(done[side], line)
            done[side] = max(done[side], line)
        longest = max(map(len, rows))
        for numbers in rows:
            numbers.extend([0] * (longest - len(numbers)))
    return rows, [{pair[0] for pair in pairs}, {pair[1] for pair in pairs}]


# -- compiler output


def _listed(tab: str, side: CodeSide, dtype: str) -> str:
    listing = side.listing
    if side.refused or listing is None:
        return _absent(side)
    if listing.functions:
        function = next((one for one in listing.functions if one.name == side.kernel), listing.functions[0])
        return _host(tab, function, dtype)
    kernel = listing.kernels.get(side.kernel) or next(iter(listing.kernels.values()), None)
    if kernel is None:
        return PARAGRAPH.format("There is no kernel in it.")
    words = f"instructions of {kernel.name}, as they stand in the code, not as often as they run"
    made = {
        PTX: lambda: _lines(ptx_of(listing.ptx, kernel.name)),
        MACHINE: lambda: _machine(kernel, side.file),
        MIX: lambda: _mix(kernel.mix, words),
        OCCUPANCY: lambda: _resources(kernel, listing),
    }
    return made[tab]()


def _absent(side: CodeSide) -> str:
    """Return the HTML that explains a missing listing, with the command that installs the missing part."""
    if not side.refused:
        return PARAGRAPH.format(escape(shown(side.doing)))
    line = f"<code>{escape(side.install)}</code>" if side.install else ""
    return f"<div class='absent' role='status'><p>{escape(shown(side.refused))}</p>{line}</div>"


def ptx_of(ptx: str, kernel: str) -> list[str]:
    """Return the PTX lines of one kernel, without `.loc` directives."""
    lines = [line for line in ptx.splitlines() if not line.lstrip().startswith(".loc")]
    begins = next((i for i, line in enumerate(lines) if re.search(rf"\.entry {re.escape(kernel)}\(", line)), None)
    if begins is None:
        return lines
    ends = next((i for i in range(begins, len(lines)) if lines[i].startswith("}")), len(lines) - 1)
    return lines[begins : ends + 1]


def _lines(lines: Sequence[str], left_out: int = 0) -> str:
    numbered = enumerate(lines[:MOST_ROWS], start=1)
    rows = "".join(f"<span class='row' data-n='{number}'>{_assembly(one)}\n</span>" for number, one in numbered)
    return f"<pre>{rows}</pre>{_more(max(0, len(lines) - MOST_ROWS) + left_out)}"


def _more(left_out: int) -> str:
    return PARAGRAPH.format(f"{left_out:,} more lines are not shown.") if left_out > 0 else ""


WORD = re.compile(r"^(\s*)(@!?%?\w+\s+)?([\w.]+)(.*)$", re.DOTALL)


def _assembly(line: str) -> str:
    """Return the HTML of a line of PTX or assembly, with its instruction highlighted."""
    hit = WORD.match(shown(line))
    if not hit or line[:1] not in (" ", "\t"):
        return f"<b>{escape(shown(line))}</b>"
    space, when, word, rest = (escape(part or "") for part in hit.groups())
    return f"{space}{when}<span class='k'>{word}</span>{rest}"


def _machine(kernel: KernelCode, file: CodeFile) -> str:
    """Return the HTML of SASS, grouped under its source lines."""
    texts = _texts(file)
    rows, place = [], ("", -1)
    for one in kernel.instructions[:MOST_ROWS]:
        if (one.file, one.line) != place:
            place = one.file, one.line
            said = texts.get(one.file, ())
            text = said[one.line - 1].strip() if 0 < one.line <= len(said) else ""
            where = f"{one.file}:{one.line}" if one.line else "no line"
            rows.append(f"<span class='row line'>{escape(shown(where))}  <i>{escape(shown(text))}</i>\n</span>")
        rows.append(_instruction(one))
    return f"<pre>{''.join(rows)}</pre>{_more(len(kernel.instructions) - MOST_ROWS)}"


def _texts(file: CodeFile) -> dict[str, list[str]]:
    """Return the lines of the file and, for CUDA, of the .cuh files in its folder, by file name."""
    paths = [file.path, *file.path.parent.glob("*.cuh")] if file.language == "cuda" else []
    return {path.name: path.read_text(encoding="utf-8", errors="replace").splitlines() for path in paths}


def _instruction(one: Instruction) -> str:
    name = f"<span class='op {css_name(one.class_)}'>{escape(one.opcode)}</span>"
    return f"<span class='row' data-n='{one.address:04x}'>{name} {escape(one.operands)}\n</span>"


def _mix(mix: Mapping[str, int], words: str) -> str:
    total, most = sum(mix.values()), max(mix.values(), default=1)
    rows = "".join(
        f"<tr><th>{escape(kind)}</th><td>{count}</td><td>{100 * count / total:.0f} %</td>"
        f"<td class='bar'><i class='{css_name(kind)}' style='width:{100 * count / most:.0f}%'></i></td></tr>"
        for kind, count in mix.items()
    )
    return f"<table class='mix'>{rows}</table>{PARAGRAPH.format(escape(f'{total} {words}.'))}"


def css_name(kind: str) -> str:
    """Return the CSS class of a class of instructions."""
    return kind.replace(",", "").replace(" ", "-")


def _resources(kernel: KernelCode, listing: Listing) -> str:
    """Return a table of registers, shared memory, and occupancy of a multiprocessor for several block sizes."""
    used = kernel.resources
    facts = {
        "registers a thread": f"{used.registers}",
        "shared memory a block": f"{used.shared:,} bytes, plus the dynamic shared memory of the launch",
        "spilled": f"{used.spill_stores} bytes stored, {used.spill_loads} loaded" if used.spill_stores else "nothing",
        "stack a thread": f"{used.stack} bytes",
    }
    head = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in facts.items())
    launched = listing.threads.get(kernel.name, 0)
    rows = ""
    for threads in sorted({*BLOCKS, *([launched] if launched else [])}):
        full = occupancy(used, threads, listing.architecture)
        mine = " class='mine'" if threads == launched else ""
        bar = f"<i style='width:{100 * full.part:.0f}%'></i>"
        numbers = f"<th>{threads}</th><td>{full.blocks}</td><td>{100 * full.part:.0f} %</td>"
        rows += f"<tr{mine}>{numbers}<td class='bar'>{bar}</td><td>{full.by}</td></tr>"
    top = "<tr><th>threads a block</th><td>blocks</td><td>occupancy</td><td></td><td>limited by</td></tr>"
    said = f"Warps of a multiprocessor of {listing.architecture} that can be resident. "
    said += f"The lab launches blocks of {launched} threads." if launched else ""
    return (
        f"<h4>{escape(kernel.name)}</h4><table class='facts'>{head}</table>"
        f"<table class='mix'>{top}{rows}</table>{PARAGRAPH.format(said)}"
    )


def _host(tab: str, function: HostFunction, dtype: str) -> str:
    words = vector_words(function.vector, dtype)
    name = f"<h4>{escape(function.name)}</h4>"
    if tab == MACHINE:
        head = f"<h4>{escape(function.name)}({escape(function.signature)})</h4>{PARAGRAPH.format(escape(words))}"
        return head + _lines(function.lines, function.left_out)
    if tab == MIX:
        return name + _mix(function.mix, f"instructions of {function.name}, as they stand in the code. {words[:-1]}")
    said = NO_PTX if tab == PTX else f"{words} {NO_OCCUPANCY}"
    return name + PARAGRAPH.format(escape(said))


def vector_words(bits: int, dtype: str) -> str:
    """Return a sentence on the vector width of a function."""
    if not bits:
        return "No vectors: it computes with one number at a time."
    return f"Vectors of {bits} bits: {bits // BITS[dtype]} {dtype} numbers an instruction at most."
