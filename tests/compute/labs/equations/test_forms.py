"""Every form of a system computes the same numbers, on any shape, with any edges; and its text can be read."""

from __future__ import annotations

import ast
import re
from functools import cache, lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compute.__main__ import main
from compute.devices.backends import BACKENDS
from compute.devices.cuda_source import check_cuda_text
from compute.devices.devices import Host
from compute.devices.webgpu import SOFTWARE, WebGpu
from compute.labs.equations import cpu_numba, cpu_numpy, gpu_cupy, gpu_wgpu
from compute.labs.equations.forms import FORMS, Program
from compute.labs.equations.forms.printing import WIDTH
from compute.labs.equations.language import read
from compute.labs.equations.passes import lower
from compute.labs.equations.presets import presets
from compute.labs.equations.reference import Reference
from compute.labs.equations.stepping import begin, extend, picture_program
from compute.labs.equations.tree import EquationError
from tests.cuda_on_cpu import FakeGpu, Module

EXACT = {
    "heat": "u_t = D*lap(u); D = 0.2 in [0, 1]; edges: zero-flux",
    "Gray-Scott": "u_t = 0.16*lap(u) - u*v^2 + F*(1 - u); v_t = 0.08*lap(v) + u*v^2 - (F + k)*v\n"
    "F = 0.037 in [0, 0.1]; k = 0.06 in [0, 0.1]",
    "wave": "u_t = v; v_t = c^2*lap(u) - 0.1*v; c = 0.7 in [0, 1]; scheme = symplectic; edges: fixed 0.3",
    "Cahn-Hilliard": "c_t = lap(mu)/8; mu = c^3 - c - g*lap(c); g = 0.1 in [0, 2]; dx = 1.5; edges: zero-flux",
    "Burgers": "u_t = -dx(u^2/2) - v*dy(u) + lap(u)/9; v_t = -u*dx(v) - dy(v^2/2) + lap(v)/9; scheme = rk3; u: fixed 1",
    "walls": "u_t = div((0.1 + u^2/9)*grad(u)) + dxy(u)/7; wall = step(sin(x) - 0.6); edges: zero-flux",
    "four": "a_t = dxx(b) - min(a, w); b_t = dyy(c) + max(b, 0.5)/3; c_t = dx(d)/2 + where(a > b, a, 1) - abs(c)\n"
    "d_t = dy(a) + sqrt(abs(x - y))/9 + step(b - 0.5)*t - Lx/(50 + Ly); edges: zero-flux; b: fixed 0.25\n"
    "w = a*b*(c - d)",
}  # with operations that all languages round alike
ROUNDED = {
    "functions": "u_t = lap(u)/9 + sin(u)*cos(v) - tanh(u*v) + exp(-u^2)/9\n"
    "v_t = lap(v)/8 + log(1 + v^2) + abs(u)^0.3/9"
}
SHAPES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 7), (5, 8), (18, 133)]
STEPS = 3


@cache
def program(text):
    system = read(text)
    return Program(system, lower(system))


def dt_of(made):
    return made.system.dt or 0.05


def initial(made, shape, dtype):
    random = np.random.default_rng(1)
    arrays = {field: (0.5 + 0.3 * random.uniform(-1, 1, shape)).astype(dtype) for field in made.system.fields}
    if any("wall" in each.sources for each in made.plan.passes):
        arrays["wall"] = (random.uniform(size=shape) > 0.8).astype(dtype)
    return arrays


def advanced(step, device, made, shape, dtype, steps=STEPS):
    """Return the fields after some steps from a random state."""
    state = begin(device, made, initial(made, shape, dtype))
    numbers = {name: parameter.value for name, parameter in made.system.parameters.items()}
    step(made, state, numbers, dt_of(made), 1)
    step(made, state, numbers, dt_of(made), steps - 1)
    assert state.t == pytest.approx(steps * dt_of(made))
    fields = {name: device.download(state.now[name]) for name in made.system.fields}
    assert {array.dtype.name for array in fields.values()} == {dtype}
    return fields


@pytest.fixture
def on_cpu(monkeypatch):
    """Compile CUDA C for the CPU; return the device."""
    monkeypatch.setattr(gpu_cupy, "compile_cuda_text", lru_cache(lambda text, name: Module(text, {})))
    monkeypatch.setattr(gpu_cupy, "multiprocessors", lambda _: 1)
    return FakeGpu()


@pytest.fixture
def webgpu(monkeypatch):
    """Return the software adapter, unless the machine has a GPU."""
    if WebGpu.missing():
        monkeypatch.setenv(SOFTWARE, "software")
    if missing := WebGpu.missing():
        pytest.skip(missing)
    return WebGpu(0)


def assert_equal(step, device, text, dtype, shapes=SHAPES, bound=0.0):
    for shape in shapes:
        truth = advanced(cpu_numpy.step, Host(), program(text), shape, dtype)
        for name, array in advanced(step, device, program(text), shape, dtype).items():
            assert np.isfinite(truth[name]).all()
            np.testing.assert_allclose(array, truth[name], rtol=0, atol=bound, err_msg=f"{name} {shape}")


ALL = EXACT | ROUNDED | {name: each.text for name, each in presets().items()}
BOUND = {"float32": 2e-6, "float64": 4e-15}  # after STEPS steps of numbers of size 1, with functions
SAMPLE = ("four", "walls")  # compiled by Numba in the fast tests
NUMBA_CASES = [
    pytest.param(name, dtype, marks=[] if name in SAMPLE and dtype == "float32" else pytest.mark.extended)
    for name, dtype in product(ALL, BOUND)
]


@pytest.mark.parametrize(("name", "dtype"), NUMBA_CASES)
def test_numba_equals_numpy(name, dtype):
    assert_equal(cpu_numba.one_step, Host(), ALL[name], dtype, bound=BOUND[dtype] if name in ROUNDED else 0.0)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ALL)
def test_cuda_c_equals_numpy(on_cpu, name, dtype):
    assert_equal(gpu_cupy.step, on_cpu, ALL[name], dtype, bound=BOUND[dtype] if name in ROUNDED else 0.0)


TILED = {
    "edges": "u_t = lap(u)/9 - dx(v)/3 + x*dy(u)/99; v_t = lap(v)/9 + y*u/99; edges: fixed 0.3; u: zero-flux",
    "periodic": "u_t = lap(u)/9 - dx(u) + x*dy(u)/99 - y/99",
    "wall": "u_t = lap(u)/9 + x; v_t = -u; wall = step(x - 4); edges: zero-flux",
    "symplectic": "u_t = v; v_t = lap(u)/9; scheme = symplectic; edges: fixed 0.25",
}
LARGER = [*SHAPES, (40, 260), (25, 131), (300, 33)]  # inner strips, ragged ones, several bands


def tiled():
    """Return the names of the texts of which a launch computes several steps."""
    return [name for name, text in (ALL | TILED).items() if program(text).steps_tiling("float32")]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", tiled())
def test_several_steps_a_launch_equal_single_steps(on_cpu, name, dtype):
    made = program((ALL | TILED)[name])
    steps = made.steps_tiling(dtype).steps + 1
    for shape in LARGER:
        single = advanced(gpu_cupy.one_step, on_cpu, made, shape, dtype, 2 * steps)
        several = advanced(gpu_cupy.step, on_cpu, made, shape, dtype, 2 * steps)
        for field, array in several.items():
            np.testing.assert_array_equal(array, single[field], err_msg=f"{field} {shape}")


@pytest.mark.parametrize("name", tiled())
def test_several_steps_a_launch_of_wgsl_equal_single_steps(webgpu, name):
    made = program((ALL | TILED)[name])
    strips = made.steps_strips()
    assert (strips is None) == ("wall" in made.plan.passes[0].sources)
    steps = strips.steps + 1 if strips else 1
    for shape in [(1, 1), (2, 9), (9, 1), (40, 260), (25, 131), (61, 517)] if strips else []:
        single = advanced(gpu_wgpu.one_step, webgpu, made, shape, "float32", 2 * steps)
        several = advanced(gpu_wgpu.step, webgpu, made, shape, "float32", 2 * steps)
        for field, array in several.items():
            np.testing.assert_array_equal(array, single[field], err_msg=f"{field} {shape}")


def test_several_steps_a_launch_are_for_one_pass_over_its_fields():
    assert set(TILED) | {"heat", "Gray-Scott", "gray_scott", "chemotaxis", "wave", "fisher_maze"} <= set(tiled())
    for text in (EXACT["walls"], EXACT["Burgers"], EXACT["Cahn-Hilliard"], EXACT["four"], "u_t = lap(u)/9 + t"):
        assert program(text).steps_tiling("float32") is None
        with pytest.raises(ValueError, match="one short pass over at most two fields"):
            program(text).steps_source("cuda", "float32")
    assert program("u_t = lap(u) + v; v_t = lap(v); edges: periodic; u: zero-flux").steps_tiling("float32") is None
    for (ny, nx), name in product([(1, 1), (1, 10**6), (10**6, 1), (16384, 16384)], ("heat", "Gray-Scott")):
        tiling = program(EXACT[name]).steps_tiling("float32")
        warps, rows = tiling.cut(ny, nx, 132)
        strips = -(-nx // (128 - 2 * tiling.apron))
        assert warps % strips == 0
        assert (warps // strips - 1) * rows < ny <= warps // strips * rows


IN_TILES = {
    "edges": "u_t = lap(u)/9 - dx(v)/3 + dy(u)/99; v_t = lap(v)/9 + u/99; edges: fixed 0.3; u: zero-flux",
    "periodic": "u_t = lap(u)/9 - dx(u)/5 + dy(u)/99 - u/99",
    "wall": "u_t = lap(u)/9 + v/99; v_t = -u/9; wall = step(x - 4); edges: zero-flux",
    "closed wall": "u_t = div((0.1 + u/9)*grad(u)); wall = step(x - 4); wall: zero-flux; edges: fixed 0.2",
    "closed wall, periodic": "u_t = div((0.1 + u/9)*grad(u)); wall = step(x - 4); wall: zero-flux",
    "four": "a_t = lap(a)/9 + a*b - c; b_t = dxx(b)/9 - a*b/3; c_t = dyy(c)/9 + b*b/4; d_t = lap(d)/12 - d*a/5\n"
    "edges: zero-flux; b: fixed 0.25",
    "symplectic": "u_t = v; v_t = lap(u)/9; scheme = symplectic; edges: fixed 0.25",
}
TILE_CASES = [
    pytest.param(name, dtype, marks=[] if (name, dtype) == ("edges", "float32") else pytest.mark.extended)
    for name, dtype in product(IN_TILES, BOUND)
]


@pytest.mark.parametrize(("name", "dtype"), TILE_CASES)
def test_several_steps_in_tiles_of_numba_equal_single_steps_of_numpy(name, dtype):
    """On grids of one tile and of several, narrow ones, and with passes of 1, 8 and 9 steps."""
    made = program(IN_TILES[name])
    for shape in [*SHAPES, (17, 16), (40, 260), (25, 131), (300, 33), (70, 520)]:
        single = advanced(cpu_numpy.step, Host(), made, shape, dtype, 26)
        several = advanced(cpu_numba.step, Host(), made, shape, dtype, 26)
        for field, array in several.items():
            np.testing.assert_array_equal(array, single[field], err_msg=f"{field} {shape}")


def test_several_steps_in_tiles_are_for_one_pass_of_a_quick_formula():
    assert all(program(text).cache_tiling("float32") for text in IN_TILES.values())
    diagonal, mixed = "u_t = dxy(u)/9", "u_t = lap(u) + v; v_t = lap(v); edges: periodic; u: zero-flux"
    others = [EXACT["Burgers"], EXACT["Cahn-Hilliard"], diagonal, mixed, "u_t = lap(u)/9 + sin(u)"]
    for text in [*others, *(f"u_t = lap(u)/9 + {name}" for name in "xyt")]:
        assert program(text).cache_tiling("float32") is None
        with pytest.raises(ValueError, match="several steps per launch require"):
            program(text).steps_source("numba", "float32")


@given(st.integers(1, 20000), st.integers(1, 20000), st.integers(1, 300), st.sampled_from(["heat", "Gray-Scott"]))
def test_tiles_fit_their_memory_and_cover_the_grid(ny, nx, threads, name):
    tiling = program(EXACT[name]).cache_tiling("float64")
    rows, columns = tiling.cut(ny, nx, threads)
    assert 1 <= rows <= min(tiling.rows, ny)
    assert 1 <= columns <= min(tiling.row_cells - 32, nx)
    assert tiling.arrays * tiling.array_cells * 8 * 2 < 2**20  # bytes of a tile at two times, with its apron


@pytest.mark.parametrize("name", ALL)
def test_wgsl_equals_numpy(webgpu, name):
    bound = 2e-5 if name in ROUNDED else 0.0 if WebGpu.simulated() else 2e-6  # GPUs need not divide correctly rounded
    assert_equal(gpu_wgpu.step, webgpu, ALL[name], "float32", bound=bound)


@pytest.mark.extended
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", ALL)
def test_cuda_c_compiles_without_spilling(name, architecture):
    made = program(ALL[name])
    for dtype in BOUND:
        texts = [
            *made.sources("cuda", dtype),
            *([made.steps_source("cuda", dtype)] if made.steps_tiling(dtype) else []),
        ]
        for text in texts:
            for kernel, used in check_cuda_text(text, name="kernel.cu", architecture=architecture).resources.items():
                assert used.spill_stores <= 16, kernel  # bytes: ptxas stores one number rather than use a register more
                assert used.stack <= (64 if name in ROUNDED else 16), kernel  # sin and cos of large numbers
                assert used.registers <= (168 if kernel == "many_steps" else 128), kernel


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", ALL)
def test_numpy_equals_the_reference(name, dtype):
    for shape in SHAPES:
        made = program(ALL[name])
        truth = Reference(made.system, *shape, dt=dt_of(made), start=initial(made, shape, dtype), dtype=dtype)
        truth.advance(STEPS)
        for field, array in advanced(cpu_numpy.step, Host(), made, shape, dtype).items():
            np.testing.assert_array_equal(array, truth.arrays[field], err_msg=f"{field} {shape}")


def numbers():
    return st.sampled_from(["u", "v", "F", "x", "y", "t", "Lx", "0.5", "2", "3", "0.1"])


def larger(inner):
    """Return expressions of expressions. Denominators are not 0."""
    two = st.tuples(inner, inner)
    local = st.sampled_from(["u", "v", "u*v", "u^2", "v - u"])
    return st.one_of(
        st.tuples(two, st.sampled_from(["({} + {})", "({} - {})", "{}*{}", "{} - ({})", "{}*({})"])).map(filled),
        st.tuples(two, st.sampled_from(["{}/(2 + ({})^2)", "min({}, {})", "max({}, {})"])).map(filled),
        st.tuples(two, st.sampled_from(["where({} < 0.5, {}, 1)", "where({} >= u, 2, {})"])).map(filled),
        st.tuples(st.tuples(inner), st.sampled_from(["(-({}))", "({})^2", "({})^3", "step({})", "abs({})"])).map(
            filled
        ),
        st.tuples(st.tuples(local), st.sampled_from(["lap({})", "dx({})", "dyy({})", "dxy({})"])).map(filled),
        st.tuples(st.tuples(local, local), st.just("div(({})*grad({}))")).map(filled),
    )


def filled(parts):
    operands, form = parts
    return form.format(*operands)


EDGES = st.sampled_from(["periodic", "zero-flux", "fixed 0.3"])
EXPRESSIONS = st.recursive(numbers(), larger, max_leaves=12)


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXPRESSIONS, EXPRESSIONS, EDGES, EDGES, st.sampled_from(["euler", "rk3", "symplectic"]), st.sampled_from(SHAPES))
def test_any_equation_is_the_same_in_all_forms_and_the_reference(
    on_cpu, webgpu, first, second, all_edges, own, scheme, shape
):
    text = (
        f"u_t = {first}; v_t = {second}; F = 0.3 in [0, 1]; edges: {all_edges}; v: {own}; scheme: {scheme}; dt = 0.01"
    )
    made = program(text)
    truth = Reference(made.system, *shape, start=initial(made, shape, "float64"), dtype="float64")
    truth.advance(STEPS)
    arrays = advanced(cpu_numpy.step, Host(), made, shape, "float64")
    for field, array in advanced(gpu_cupy.step, on_cpu, made, shape, "float64").items():
        np.testing.assert_array_equal(arrays[field], truth.arrays[field])
        np.testing.assert_array_equal(array, truth.arrays[field])
    if WebGpu.simulated():  # other GPUs need not divide correctly rounded
        arrays = advanced(cpu_numpy.step, Host(), made, shape, "float32", 9)  # several steps a launch, where possible
        for field, array in advanced(gpu_wgpu.step, webgpu, made, shape, "float32", 9).items():
            np.testing.assert_array_equal(array, arrays[field])


def test_a_long_formula_is_a_function_that_is_not_repeated(on_cpu):
    text = "u_t = " + " + ".join(f"sin({k}*u)/{k}9" for k in range(1, 9)) + " + lap(u)/9"
    assert "__noinline__ float cell(" in program(text).sources("cuda")[0]
    assert program(text).steps_tiling("float32") is None
    assert_equal(gpu_cupy.step, on_cpu, text, "float64", [(5, 7)], bound=BOUND["float64"])


def test_constants_of_a_formula_do_not_change_the_type(webgpu, on_cpu):
    text = "u_t = sqrt(q)*u/9 + (q - 2)^3 + q^0.3*u/9 - lap(u)/(s - 1); q = 2; s = 4"
    for step, device in ((gpu_wgpu.step, webgpu), (gpu_cupy.step, on_cpu)):
        assert_equal(step, device, text, "float32", [(5, 7)], bound=2e-7)


@pytest.mark.parametrize("backend", [cpu_numpy, gpu_cupy, gpu_wgpu])
def test_the_second_picture_is_computed_from_the_current_fields(on_cpu, webgpu, backend):
    device = {cpu_numpy: Host(), gpu_cupy: on_cpu, gpu_wgpu: webgpu}[backend]
    made = program(
        "u_t = lap(mu)/99; mu = u^3 - lap(u); k = 0.5 in [0, 1]; show = k*abs(mu) + u^2 + t; edges: zero-flux"
    )
    shown = picture_program(made.system)
    state = begin(device, made, initial(made, (8, 11), "float32"))
    extend(device, state, shown)
    backend.step(made, state, {"k": 0.5}, 0.25, 3)
    backend.step(shown, state, {"k": 0.5}, 0.0, 1)
    assert state.t == 0.75
    u = device.download(state.now["u"]).astype(float)
    ghosts = np.pad(u, 1, mode="edge")
    lap = ghosts[2:, 1:-1] + ghosts[:-2, 1:-1] + ghosts[1:-1, 2:] + ghosts[1:-1, :-2] - 4 * u
    wanted = 0.5 * abs(u**3 - lap) + u**2 + 0.75
    np.testing.assert_allclose(device.download(state.now["show"]), wanted, rtol=0, atol=2e-6)
    assert picture_program(program(EXACT["heat"]).system) is None


def test_wgsl_does_not_reorder_constants(webgpu):
    for rate in ("u + x + 3", "3 + (u + 0.1)", "u*u*0.2", "0.3*(u*0.7)", "q - 2", "0.7*div(0.1*grad(u))", "u*x*0.2/3"):
        text = f"u_t = {rate}; q = u + x; dx = 0.3"
        divides = "/" in rate and not WebGpu.simulated()  # not correctly rounded on every GPU
        assert_equal(gpu_wgpu.step, webgpu, text, "float32", [(40, 60)], bound=2e-6 if divides else 0.0)


# -- names


def letters(made):
    """Return the words of all texts that a typed name could be, except those of the system."""
    texts = [text for form in FORMS for text in made.sources(form)]
    texts += [made.steps_source(form) for form in ("cuda", "wgsl") if made.steps_strips()]
    texts += [made.steps_source("numba")] if made.cache_tiling("float32") else []
    texts = [re.sub(r'"""(.|\n)*?"""|//.*|# .*', "", text) for text in texts]
    own = {*made.system.fields, *made.system.parameters}
    return sorted({word for text in texts for word in re.findall(r"\b[A-Za-z][A-Za-z0-9]*\b", text)} - own)


def allowed(word):
    """Return whether a text may use a word as a name."""
    try:
        read(f"u_t = {word}*u; {word} = 1 in [0, 2]")
    except EquationError:
        return False
    return len(word) < 16


def test_names_of_a_text_may_be_those_of_generated_variables(on_cpu, webgpu):
    words = [word for text in EXACT.values() for word in letters(program(text)) if allowed(word)]
    words = list(dict.fromkeys(words))
    assert len(words) > 10
    for start in range(0, len(words), 12):
        names = (words[start : start + 12] + words)[:12]
        texts = []
        for f, *rest in (names, [f"n{k}" for k in range(12)]):
            parameters = "; ".join(f"{name} = {k + 1} in [0, 20]" for k, name in enumerate(rest))
            texts.append(f"{f}_t = lap({f})/9 + {'*'.join(rest)}/1e9; {parameters}; edges: fixed 0.5")
        truth, *_ = advanced(cpu_numpy.step, Host(), program(texts[1]), (9, 13), "float32", 9).values()
        forms = (
            (cpu_numpy.step, Host()),
            (gpu_cupy.one_step, on_cpu),
            (gpu_cupy.step, on_cpu),
            (gpu_wgpu.one_step, webgpu),
            (gpu_wgpu.step, webgpu),
        )
        for step, device in forms:
            (made,) = advanced(step, device, program(texts[0]), (9, 13), "float32", 9).values()
            np.testing.assert_array_equal(made, truth, err_msg=f"{step.__module__} {names}")


def test_functions_of_numba_with_the_numbers_of_a_text_use_no_name_that_a_text_may_use():
    for text in [*EXACT.values(), *IN_TILES.values()]:
        made = program(text)
        sources = made.sources("numba") + ([made.steps_source("numba")] if made.cache_tiling("float32") else [])
        functions = [
            each for source in sources for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)
        ]
        own = {*made.system.fields, *made.system.parameters, *made.system.named}
        for each in (each for each in functions if "dt" in {argument.arg for argument in each.args.args}):
            names = {node.id for line in each.body for node in ast.walk(line) if isinstance(node, ast.Name)}
            assert [name for name in names - own if allowed(name)] == [], each.name


# -- the text


@pytest.mark.parametrize("form", FORMS)
def test_a_text_has_short_lines_and_the_formula_as_comments(form):
    for name, text in ALL.items():
        for source in program(text).sources(form):
            assert max(map(len, source.splitlines())) <= WIDTH + 4, name
            assert "\t" not in source
            assert source.isascii()
    (source, *_) = program(EXACT["Gray-Scott"]).sources(form)
    assert re.search(r"lap_u = .*lap\(u\)|lap\(u\)\n.*lap_u = ", source)
    assert "Du" not in source
    assert "u_t = 0.16*lap(u) - u*v^2 + F*(1 - u)" in source


def test_a_kernel_has_the_numbers_of_its_type():
    made = program("u_t = 2*u + 0.5*v; v_t = where(u > 1, 0, 1)")
    assert "2.0f*u + 0.5f*v" in made.sources("cuda")[0]
    assert "2.0*u + 0.5*v" in made.sources("cuda", "float64")[0]
    assert "REAL(2)*u + REAL(0.5)*v" in made.sources("numba")[0]
    assert "2*u + 0.5*v" in made.sources("numpy")[0]
    assert "exact(2.0*u) + exact(0.5*v)" in made.sources("wgsl")[0]
    with pytest.raises(ValueError, match="dtype must be float32 for wgsl, not 'float64'"):
        made.sources("wgsl", "float64")
    with pytest.raises(ValueError, match="form must be one of numpy, numba, numba-cuda, cuda, wgsl, not 'cpp'"):
        made.sources("cpp")


def test_sliders_do_not_change_the_text():
    low, high = (read(f"u_t = D*lap(u); D = {value} in [0, 1]") for value in (0.1, 0.2))
    for form in FORMS:
        assert Program(low, lower(low)).sources(form) == Program(high, lower(high)).sources(form)


def test_every_backend_of_the_lab_has_a_form():
    assert [each.name for each in BACKENDS if each.has_kernels("compute.labs.equations")] == [
        each.name for each in BACKENDS
    ]


# -- the command


def test_the_command_prints_each_form_of_a_file_or_a_preset(tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("# my equation\nu_t = D*lap(u); D = 0.2 in [0, 1]\n")
    system = read(path.read_text())
    for form in FORMS:
        assert main(["equation", str(path), "--emit", form]) == 0
        assert capsys.readouterr().out == Program(system, lower(system), "mine").sources(form)[0]
    assert main(["equation", "heat", "--emit", "cuda", "--dtype", "float64", "--out", str(tmp_path / "heat.cu")]) == 0
    assert "double lap_u" in (tmp_path / "heat.cu").read_text()


def test_the_command_reports_errors_with_their_place(tmp_path, capsys):
    path = tmp_path / "wrong.txt"
    path.write_text("u_t = D*lapp(u); D = 0.2 in [0, 1]")
    assert main(["equation", str(path)]) == 2
    assert "line 1, column 9" in capsys.readouterr().err
    assert main(["equation", "heat", "--emit", "wgsl", "--dtype", "float64"]) == 2
    assert "dtype must be float32 for wgsl" in capsys.readouterr().err
    assert main(["equation", str(tmp_path / "absent.txt")]) == 2
    assert "absent.txt" in capsys.readouterr().err
