"""Files of users: right ways pass, planted races and missing tail guards are found, all without a GPU."""

from __future__ import annotations

import json
import sys
from math import inf
from pathlib import Path

import numba
import numpy as np
import pytest

from compute.own import gpu_stand_in, tasks
from compute.own.faults import Fault
from compute.ways.comparing import Question, ResultComparison, awkward, questions
from compute.ways.declaring import FileRefused, load
from tests.simulator import simulate

FILES = Path(__file__).parent / "files"
PLANTED = {"race": "race", "tail": "outside"}
TINY = np.finfo(np.float32).tiny


def checked(file, way, most=300):
    """Return the kind of fault of a way on stand-ins and its text; the kind is "" if the way is right."""
    checking = tasks.Checking(file, way, "float32", 0, stand_in=True)
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


@pytest.mark.parametrize(("name", "most"), [("blur", 40), ("particles", 300), ("leapfrog", 70)])
def test_the_cuda_c_of_the_files(name, most, stand_ins):
    file = load(FILES / f"{name}.py", gpu_stand_in.compile_source)
    found = {}
    for way in file.ways.values():
        if way.backend.name in stand_ins:
            tasks._open[:] = [tasks._Open(file, stand_ins)]
            found[way.name] = checked(file, tasks._way(way.name), most)
    assert found
    for way, (kind, text) in found.items():
        assert kind == PLANTED.get(way.rpartition("_")[2], ""), (way, text)


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


def test_a_result_that_depends_on_the_order_of_blocks_is_a_race_although_each_access_is_ordered(tmp_path, stand_ins):
    turns = NUMPY.replace("return x", "return np.repeat(np.float32([0, 1, 2, 3]), 32)[: x.size]")
    (tmp_path / "own.py").write_text(HEAD + INPUTS + turns + LATE)
    file = load(tmp_path / "own.py")
    tasks._open[:] = [tasks._Open(file, stand_ins)]
    kind, text = checked(file, tasks._way("gpu_cupy"), 100)
    assert kind == "race"
    assert "right if blocks and threads run in their order, and wrong if they run backwards (n = 33)" in text


PROGRAM = """
import json, sys
from pathlib import Path
from compute.own import gpu_simulator, gpu_stand_in
gpu_simulator.install()
gpu_stand_in.install()
from compute.ways.declaring import load
from tests.compute.own.test_checks import checked
found = {}
for name, most in (("blur", 20), ("particles", 260), ("leapfrog", 40)):
    file = load(Path(sys.argv[1]) / f"{name}.py", gpu_stand_in.compile_source)
    for way in file.ways.values():
        if way.backend.name == "gpu_numba":
            found[f"{name} {way.name}"] = checked(file, way, most)
print(json.dumps(found))
"""


def test_numba_s_kernels_of_the_files():
    # the watched threads replace those that tests/simulator.py installs first
    found = json.loads(simulate(PROGRAM, FILES))
    assert len(found) == 5
    for way, (kind, text) in found.items():
        assert kind == PLANTED.get(way.rpartition("_")[2], ""), (way, text)


# -- comparison


@pytest.mark.parametrize(
    ("result", "right", "difference"),
    [
        ([1.0, 2.5], [1.0, 2.0], 0.25),  # relative to the largest right result
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.inf, 2.0], [-np.inf, 2.0], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
        ([1, 2], [1, 3], np.inf),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        (np.float32([0.0]), np.float32([TINY / 4]), 0.25),  # denormal, relative to the smallest normal number
    ],
)
def test_the_difference_is_relative_to_the_largest_result(result, right, difference):
    compared = ResultComparison()
    assert compared((np.array(result),), (np.array(right),)) == difference
    assert bool(compared.said) == bool(difference)


@pytest.mark.parametrize(("small", "kind"), [("0", ""), ("x[0]", "differs")])
def test_a_way_that_flushes_denormal_numbers_to_zero_is_right(tmp_path, small, kind):
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


def test_the_first_difference_is_located():
    compared = ResultComparison()
    compared((np.array([[1.0, 2.0], [3.0, 5.0]]),), (np.array([[1.0, 2.0], [3.5, 4.0]]),))
    assert compared.said == "[1, 1] is 5 where the reference has 4; 2 of 4 differ"
    compared((np.zeros(2), np.zeros(3)), (np.zeros(2), np.ones(3)))
    assert compared.said.startswith("result 2 [0] is 0 where the reference has 1")
    assert compared((), (np.zeros(2),)) == np.inf


def test_inputs_are_tiny_odd_and_awkward():
    *random, denormal, nan = questions((1, 10**6), 1031, denormals=True, nan=True)
    sizes = [one.n for one in random]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert any(n % 2 for n in sizes)
    assert any(n % 32 for n in sizes)
    assert (denormal.kind, nan.kind) == ("denormal", "nan")
    assert [one.n for one in questions((50, 60), 40, denormals=False, nan=False)] == [1, 2, 3, 31, 33]
    x, whole = np.random.default_rng(0).random(50, np.float32), np.arange(3)
    small, same = awkward((x, whole), "denormal", np.random.default_rng(0))
    assert 0 < np.abs(small).max() < TINY
    assert same is whole
    assert 1 <= np.isnan(awkward((x,), "nan", np.random.default_rng(0))[0]).sum() <= 3


CHUNKED = """
import numba
chunks = []
@way("cpu_numba")
def chunked(x):
    chunks.append(numba.get_parallel_chunksize())
    return x
"""


def test_repetitions_cut_the_loops_of_numba_into_few_or_many_chunks(tmp_path):
    """One chunk per thread (0) in some runs, at least eight per thread in the others, of many sizes."""
    (tmp_path / "own.py").write_text(HEAD + INPUTS.replace("100", "100_000") + NUMPY + CHUNKED)
    file, n, before = load(tmp_path / "own.py"), 100_000, numba.get_parallel_chunksize()
    tasks._open[:] = [tasks._Open(file, {})]
    tasks.Checking(file, file.ways["cpu_numba"], "float32", 0, stand_in=False).repeat(n, inf, inf, lambda *_: None)
    few, *sizes = sorted(set(file.ways["cpu_numba"].function().__globals__["chunks"]))
    assert few == 0
    assert len(sizes) > 5
    assert sizes[-1] <= n / (8 * numba.config.NUMBA_NUM_THREADS)
    assert numba.get_parallel_chunksize() == before


# -- files

HEAD = "import numpy as np\nfrom compute.own import cuda_kernel, way, workload\n"
INPUTS = "@workload(sizes=(1, 100))\ndef inputs(n, dtype, rng): return rng.random(n)\n"
NUMPY = "@way('cpu_numpy')\ndef plain(x): return x\n"
MARKED = NUMPY.replace("')", "', reference=True)")


@pytest.mark.parametrize(
    ("text", "message"),
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
        (HEAD + "kernel = cuda_kernel('none.cu', 'k')\n" + INPUTS + NUMPY, "there is no none.cu next to the file"),
        (HEAD + "def f(:\n", r"own\.py, line 3: syntax error"),
        ("x = '\0'", "syntax error"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_with_its_bound(tmp_path, text, message):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(FileRefused, match=message):
        load(tmp_path / "own.py")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        (b"# \xff\n", "no text in UTF-8"),
        (b"#" * (2**22 + 1), "4194305 bytes; 4194304 are allowed"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, content, message):
    if content:
        (tmp_path / "own.py").write_bytes(content)
    with pytest.raises(FileRefused, match=message):
        load(tmp_path / "own.py")


def test_a_file_can_be_run_as_a_script(tmp_path):
    text = HEAD + INPUTS + NUMPY + "assert plain(3) == 3\n"
    (tmp_path / "own.py").write_text(text)
    assert list(load(tmp_path / "own.py").ways) == ["cpu_numpy"]
    exec(text, {})
