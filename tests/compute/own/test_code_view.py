"""The code of a kernel: parsed output of nvdisasm, and occupancy that equals NVIDIA's calculation."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from compute.devices.cuda_source import Resources
from compute.labs.diffusion import gpu_cupy as diffusion
from compute.own import code_view as code
from compute.own.code_view import CodeUnavailable, class_of, kernels_of_listing, occupancy, vector_bits
from tests.sass import straight_runs

BLUR = Path(__file__).parent / "files" / "blur.cu"
LISTING = """
\t.section\t.text.add,"ax",@progbits
.text.add:
\t//## File "/home/somebody/add.cu", line 4
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_TID.X ;
\t//## File "/home/somebody/add.cu", line 5
        /*0020*/               @P0 EXIT ;
        /*0030*/                   LDG.E R2, desc[UR4][R2.64] ;
        /*0040*/              @!P1 FADD R5, R2, 1 ;
        /*0050*/                   ATOMS.ADD RZ, [R4], R5 ;
        /*0060*/                   STG.E desc[UR4][R2.64], R5 ;
        /*0070*/                   EXIT ;
.L_x_0:
        /*0080*/                   BRA `(.L_x_0);
        /*0090*/                   NOP;
.text.helper:
        /*0000*/                   RET.REL.NODEC R2 `(helper) ;
"""


def test_a_listing_is_read():
    resources = Resources(8, 0, 0, 0, 0)
    ((name, kernel),) = kernels_of_listing(LISTING, {"add": resources})
    assert (name, kernel.name, kernel.resources) == ("add", "add", resources)
    assert [one.opcode for one in kernel.instructions][:5] == ["LDC", "S2R", "EXIT", "LDG.E", "FADD"]
    assert kernel.instructions[4].operands == "R5, R2, 1"
    assert {one.file for one in kernel.instructions} == {"add.cu"}  # without the folder
    assert kernel.by_line() == {4: 2, 5: 8}
    assert kernel.mix == {
        "control": 3, "global memory": 2, "constants": 1, "moves": 1, "float32": 1, "shared memory": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("DFMA", "float64"),
        ("IMAD.MOV.U32", "integer and logic"),
        ("LDGSTS.E", "global memory"),
        ("LDL", "local memory"),
        ("ATOMS.ADD", "shared memory"),
        ("MUFU.RSQ", "special functions"),
        ("BAR.SYNC.DEFER_BLOCKING", "control"),
        ("F2I.TRUNC.NTZ", "conversion"),
        ("HMMA.16816.F32", "half and tensor"),
    ],
)
def test_opcodes_have_classes(opcode, kind):
    assert class_of(opcode) == kind


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "architecture", "blocks", "part", "by"),
    [
        (32, 0, 256, "sm_90", 8, 1.0, "warps"),  # 2048 threads
        (64, 0, 256, "sm_90", 4, 0.5, "registers"),  # 65536 / (64 x 256)
        (32, 48 * 1024, 128, "sm_90", 4, 0.25, "shared memory"),  # 228 / 49
        (16, 0, 32, "sm_90", 32, 0.5, "blocks"),
        (32, 0, 1024, "sm_86", 1, 2 / 3, "warps"),
        (32, 32 * 1024, 256, "sm_75", 2, 0.5, "shared memory"),
    ],
)
def test_occupancy(registers, shared, threads, architecture, blocks, part, by):
    found = occupancy(Resources(registers, 0, 0, 0, shared), threads, architecture)
    assert (found.blocks, found.by) == (blocks, by)
    assert found.part == pytest.approx(part)


def test_an_impossible_launch_is_refused():
    with pytest.raises(ValueError, match=r"architecture must be one of sm_75, .*not 'sm_1'"):
        occupancy(Resources(8, 0, 0, 0, 0), 32, "sm_1")
    with pytest.raises(ValueError, match="threads must be from 1 to 1024, not 0"):
        occupancy(Resources(8, 0, 0, 0, 0), 0, "sm_90")


def test_a_missing_disassembler_is_reported_with_its_install_command(monkeypatch):
    monkeypatch.setattr(code, "find_nvdisasm", lambda: None)
    assert re.search(r"not installed; pip install 'fieldlab\[code\]'", code.missing())
    with pytest.raises(CodeUnavailable, match="nvdisasm is not installed"):
        code.code_view(BLUR, defines={"REAL": "float"})


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('no such option')", "refuses it: no such option"),
        ("import time; time.sleep(600)", "cannot be run: .*timed out"),
        (None, "cannot be run: .*No such file"),
    ],
)
def test_a_program_that_fails_is_reported(program, message, tmp_path, monkeypatch):
    monkeypatch.setattr(code, "TOOL_SECONDS", 0.5 if program and "sleep" in program else 60.0)
    python = Path(sys.executable) if program else tmp_path / "absent"
    with pytest.raises(CodeUnavailable, match=f"{python.stem} {message}"):
        code.run_tool(python, ("-c", program or ""), CodeUnavailable)


@pytest.mark.skipif(code.missing() is not None, reason=str(code.missing()))
def test_the_diffusion_kernel_is_counted_as_in_its_machine_code():
    shown = code.code_view(diffusion.SOURCE, defines={"REAL": "float"})
    assert set(shown.kernels) == {"laplacian", "one_step", "racing_step"}
    for name, kernel in shown.kernels.items():
        runs = straight_runs(diffusion.SOURCE, name, defines={"REAL": "float"})  # decoded from the bytes
        names = [one.opcode.partition(".")[0] for one in kernel.instructions]
        for opcode in ("FMUL", "FADD", "FFMA", "FSETP"):
            assert names.count(opcode) == sum(run[opcode] for run in runs)
        while names[-1] == "NOP":  # padding
            names.pop()
        assert len(names) == sum(run.total() for run in runs)
        lines = len(shown.source.splitlines())
        assert all(0 < line <= lines for line in kernel.by_line())


@pytest.mark.parametrize(
    ("assembly", "bits"),
    [
        ("\tvaddps\t%ymm1, %ymm2, %ymm3\n", 256),
        ("\tvfmadd213pd\t(%rax), %zmm1, %zmm2\n", 512),
        ("\taddps\t%xmm1, %xmm2\n", 128),
        ("\taddss\t%xmm1, %xmm2\n\tvmovups\t%ymm0, (%rax)\n", 0),
    ],
)
def test_the_width_of_vectors_is_read(assembly, bits):
    assert vector_bits(assembly) == bits
