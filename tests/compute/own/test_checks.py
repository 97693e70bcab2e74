"""Files of users: right ways pass, planted races and missing tail guards are found, all without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from compute.own import gpu_stand_in, tasks
from compute.own.faults import Fault
from compute.ways.comparing import Question, ResultComparison, awkward, questions
from compute.ways.declaring import FileRefused, load
from tests.simulator import simulate

FILES = Path(__file__).parent / "files"
PLANTED = {"race": "race", "tail": "outside"}


def checked(file, way, most=300, dtype="float32"):
    """Return the kind of fault of a way on stand-ins and its text; the kind is "" if the way is right."""
    checking = tasks.Checking(file, way, dtype, 0, stand_in=True)
    try:
        for question in questions(file.sizes, most, file.denormals, file.nan):
            checking.ask(question)
    except Fault as fault:
        return fault.kind, fault.text
    return "", checking.found.asked


@pytest.fixture
def stand_ins():
    before = {name: sys.modules.get(name) for name in ("cupy", "cupy.cuda", "cupyx")}
    gpu_stand_in.install()
    tasks._open[:] = []
    yield {"gpu_cupy": gpu_stand_in.STAND_IN}
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


@pytest.mark.parametrize(
    ("name", "most"),
    [("blur", 40), ("nbody", 130), ("particles", 300), ("smoothing", 200), ("leapfrog", 70), ("detector", 300)],
)
def test_the_cuda_c_of_the_files(name, most, stand_ins):
    file = load(FILES / f"{name}.py", gpu_stand_in.compile_source)
    found = {}
    for way in file.ways.values():
        if way.backend.name in stand_ins:
            tasks._open[:] = [tasks._Open(file, stand_ins)]
            found[way.name] = checked(file, tasks._way(way.name), most)
    assert found
    for way, (kind, said) in found.items():
        assert kind == PLANTED.get(way.rpartition("_")[2], ""), (way, said)


LATE = """
import cupy
CODE = r'''
extern "C" __global__ void late(float* out, int* turn, int n)
{ __shared__ int mine; if (threadIdx.x == 0) { __threadfence(); mine = atomicAdd(turn, 1); } __syncthreads();
  int i = blockIdx.x * 32 + threadIdx.x; if (i < n) out[i] = mine; }'''
@way("gpu_cupy")
def late(x, out):
    turn = cupy.zeros(1, np.int32)
    cupy.RawKernel(CODE, "late")((-(-x.size // 32),), (32,), (out, turn, np.int32(x.size)))
"""


def test_what_depends_on_the_order_of_blocks_is_told_although_each_access_is_ordered(tmp_path, stand_ins):
    turns = NUMPY.replace("return x", "return np.repeat(np.float32([0, 1, 2, 3]), 32)[: x.size]")
    (tmp_path / "own.py").write_text(HEAD + INPUTS + turns + LATE)
    file = load(tmp_path / "own.py")
    tasks._open[:] = [tasks._Open(file, stand_ins)]
    kind, said = checked(file, tasks._way("gpu_cupy"), 100)
    assert kind == "race"
    assert "right if blocks and threads run in their order, and wrong if they run backwards (n = 33)" in said


PROGRAM = """
import json, sys
from pathlib import Path
from compute.own import gpu_simulator, gpu_stand_in
gpu_simulator.install()
gpu_stand_in.install()
from compute.ways.declaring import load
from tests.compute.own.test_checks import checked
found = {}
for name, most in (("blur", 20), ("nbody", 70), ("particles", 260), ("leapfrog", 40), ("detector", 260)):
    file = load(Path(sys.argv[1]) / f"{name}.py", gpu_stand_in.compile_source)
    for way in file.ways.values():
        if way.backend.name == "gpu_numba":
            found[f"{name} {way.name}"] = checked(file, way, most)
print(json.dumps(found))
"""


def test_numba_s_kernels_of_the_files():
    # the watched threads replace those that tests/simulator.py installs first
    found = json.loads(simulate(PROGRAM, FILES))
    assert len(found) == 8
    for way, (kind, said) in found.items():
        assert kind == PLANTED.get(way.rpartition("_")[2], ""), (way, said)


# -- comparison


@pytest.mark.parametrize(
    ("result", "right", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),  # relative to the largest right result
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.inf, 2.0], [-np.inf, 2.0], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
        ([1, 2], [1, 3], np.inf),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
    ],
)
def test_the_difference_is_part_of_the_largest_result(result, right, difference):
    compared = ResultComparison()
    assert compared((np.array(result),), (np.array(right),)) == difference
    assert bool(compared.said) == bool(difference)


def test_the_difference_of_denormal_numbers_is_part_of_the_smallest_normal_one():
    tiny = np.finfo(np.float32).tiny
    assert ResultComparison()((np.array([0.0], np.float32),), (np.array([tiny / 4], np.float32),)) == 0.25


@pytest.mark.parametrize(("small", "kind"), [("0", ""), ("x[0]", "differs")])
def test_a_way_that_takes_denormal_numbers_for_zero_is_right(tmp_path, small, kind):
    """CuPy compiles every kernel with -ftz=true, no fault of the kernel. A sum of a million of them is normal."""
    numpy = NUMPY.replace("return x", "return x * np.float32(1e6)")
    flushing = f"""
@way("cpu_numba")
def flushing(x):
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, {small}, x) * np.float32(1e6)
"""
    (tmp_path / "own.py").write_text(HEAD + INPUTS + numpy + flushing)
    file = load(tmp_path / "own.py")
    tasks._open[:] = [tasks._Open(file, {})]
    checking = tasks.Checking(file, file.ways["cpu_numba"], "float32", 0, stand_in=False)
    question = Question("denormal numbers, n = 40", 40, "denormal")
    if kind:
        with pytest.raises(Fault, match="denormal") as caught:
            checking.ask(question)
        assert caught.value.kind == kind
    else:
        checking.ask(question)
        assert checking.found.notes == (tasks.FLUSHED,)


def test_where_results_differ_is_said():
    compared = ResultComparison()
    compared((np.array([[1.0, 2.0], [3.0, 5.0]]),), (np.array([[1.0, 2.0], [3.5, 4.0]]),))
    assert compared.said == "[1, 1] is 5 where the reference has 4; 2 of 4 differ"
    compared((np.zeros(2), np.zeros(3)), (np.zeros(2), np.ones(3)))
    assert compared.said.startswith("result 2 [0] is 0 where the reference has 1")
    assert compared((), (np.zeros(2),)) == np.inf


def test_what_is_asked_is_tiny_odd_and_awkward():
    asked = list(questions((1, 10**6), 1031, denormals=True, nan=True))
    sizes = [one.n for one in asked if one.kind == "random"]
    assert sizes[0] == 1
    assert any(n % 2 for n in sizes)
    assert any(n % 32 for n in sizes)
    assert sizes == sorted(sizes)
    assert [one.kind for one in asked[-2:]] == ["denormal", "nan"]
    assert list(questions((50, 60), 40, denormals=False, nan=False)) == [Question("n = 1", 1, "random")] + [
        Question(f"n = {n}", n, "random") for n in (2, 3, 31, 33)
    ]
    x = np.random.default_rng(0).random(50, np.float32)
    whole = np.arange(3)
    small, same = awkward((x, whole), "denormal", np.random.default_rng(0))
    assert 0 < np.abs(small).max() < np.finfo(np.float32).tiny
    assert same is whole
    assert 1 <= np.isnan(awkward((x,), "nan", np.random.default_rng(0))[0]).sum() <= 3


# -- files

HEAD = "import numpy as np\nfrom compute.own import cuda_kernel, way, workload\n"
INPUTS = "@workload(sizes=(1, 100))\ndef inputs(n, dtype, rng): return rng.random(n)\n"
NUMPY = "@way('cpu_numpy')\ndef plain(x): return x\n"
MARKED = NUMPY.replace("')", "', reference=True)")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + NUMPY, "has no workload"),
        (HEAD + INPUTS, "has no way to compute it"),
        (HEAD + INPUTS + NUMPY.replace("cpu_numpy", "cpu_numba"), "mark a way with reference=True"),
        (HEAD + INPUTS + INPUTS + NUMPY, "there are two workloads"),
        (HEAD + INPUTS + NUMPY + NUMPY, "there are two ways 'cpu_numpy'"),
        (HEAD + INPUTS + NUMPY.replace("cpu_numpy", "fpga"), "must begin with one of cpu_numpy, .*not 'fpga'"),
        (HEAD + INPUTS.replace("(1, 100)", "(100, 1)") + NUMPY, r"sizes must be .*not \(100, 1\)"),
        (HEAD + INPUTS.replace("100)", "100), dtypes=('int8',)") + NUMPY, r"dtypes must be of .*not \('int8',\)"),
        (HEAD + INPUTS + MARKED + MARKED.replace("numpy", "numba"), "has 2 references"),
        (HEAD + INPUTS + MARKED.replace("cpu_numpy", "gpu_cupy"), "must run on the CPU, not be gpu_cupy"),
        (HEAD + "kernel = cuda_kernel('none.cu', 'k')\n" + INPUTS + NUMPY, "there is no none.cu beside the file"),
        (HEAD + "def f(:\n", r"own\.py, line 3: syntax error"),
        ("x = '\0'", "syntax error"),
    ],
)  # fmt: skip
def test_what_a_file_lacks_is_named(tmp_path, text, said):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(FileRefused, match=said):
        load(tmp_path / "own.py")


def test_files_that_are_none_are_named(tmp_path):
    with pytest.raises(FileRefused, match="there is no file"):
        load(tmp_path / "none.py")
    (tmp_path / "latin.py").write_bytes(b"# \xff\n")
    with pytest.raises(FileRefused, match="no text in UTF-8"):
        load(tmp_path / "latin.py")
    (tmp_path / "large.py").write_bytes(b"#" * (2**22 + 1))
    with pytest.raises(FileRefused, match="4194305 bytes; 4194304 are allowed"):
        load(tmp_path / "large.py")


def test_a_file_can_be_run_by_itself(tmp_path):
    (tmp_path / "own.py").write_text(HEAD + INPUTS + NUMPY + "assert plain(3) == 3\n")
    assert list(load(tmp_path / "own.py").ways) == ["cpu_numpy"]
    exec(HEAD + INPUTS + NUMPY + "assert plain(3) == 3\n", {})
