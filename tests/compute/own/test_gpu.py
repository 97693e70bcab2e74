"""On a GPU: the files' ways are right and timed, planted faults are found; machine code equals cuobjdump's output."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from functools import partial
from math import inf
from pathlib import Path

import pytest

from compute.devices.backends import backend
from compute.devices.cuda_source import check_cuda
from compute.labs.diffusion import gpu_cupy as diffusion
from compute.own import code_view, tasks
from compute.own.faults import Fault
from compute.own.trial import Options, try_file
from compute.own.way_process import WayProcess

FILES = Path(__file__).parent / "files"
CUPY = backend("gpu_cupy")
needs_gpu = pytest.mark.skipif(not CUPY.ready, reason=f"gpu_cupy: {CUPY.missing or CUPY.simulated}")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", ["blur", "particles", "leapfrog"])
def test_the_files_on_a_gpu(name):
    report = try_file(Options(FILES / f"{name}.py", budget=4.0, check_seconds=30.0, per_decade=1))
    assert report.refused == ""
    for one in report.ways:
        planted = one.way.name.rpartition("_")[2]
        kind = {"race": "race", "tail": "outside"}.get(planted, "")
        assert one.kind == kind, one.sentence
        if not kind and one.way.backend.ready:
            assert one.places["here"]
            assert one.left == "", one.left  # other tests use the same GPU at the same time, so the check has 30 s
            assert one.series["float32"], one.notes
    assert report.findings["float32"].n
    assert "gpu float32" in report.roofs
    print(*report.verdict["float32"], sep="\n")


@pytest.mark.gpu
@needs_gpu
def test_a_race_is_found_on_the_gpu_alone():
    process = WayProcess(FILES / "particles.py", stand_in=False, simulate=False, memory=0, deadline=60.0)
    try:
        process.open()
        with pytest.raises(Fault) as raised:
            process.ask(partial(tasks.check, "gpu_cupy_race", "float32", 0, 10.0, 10**9, inf))
        assert raised.value.kind in ("race", "differs")
        process.ask(partial(tasks.check, "gpu_cupy", "float32", 0, 10.0, 10**9, inf))
    finally:
        process.close()


@pytest.mark.skipif(code_view.missing() is not None, reason=str(code_view.missing()))
@pytest.mark.skipif(shutil.which("cuobjdump") is None, reason="cuobjdump of a CUDA toolkit is not on the path")
def test_the_machine_code_is_what_cuobjdump_prints(tmp_path):
    shown = code_view.code_view(diffusion.SOURCE, defines={"REAL": "float"})
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(check_cuda(diffusion.SOURCE, defines={"REAL": "float"}, architecture="sm_90").cubin)
    text = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True, check=True).stdout
    parts = dict(part.split("\n", 1) for part in text.split("Function : ")[1:])
    assert set(parts) == set(shown.kernels)
    for name, listing in parts.items():
        opcodes = Counter(opcode for _, opcode, _ in code_view.INSTRUCTION.findall(listing))
        assert opcodes == Counter(one.opcode for one in shown.kernels[name].instructions)
