"""The panel with the code shows the files that the typed equations become."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.labs.equations.generated_files import generated_files
from app.labs.equations.parts import PARTS
from compute.labs.equations import Equations
from compute.labs.equations.presets import presets
from compute.own.code_tasks import Asked


def test_each_backend_has_a_file_with_the_equations_as_its_comment():
    text = presets()["gray_scott"].text
    files = generated_files(text, "float64")
    assert {file.backend for file in files} == set(Equations.backends())
    assert len({file.key for file in files}) == len(files)
    assert all("u_t = Du*lap(u) - u*v^2 + F*(1 - u)" in file.text for file in files)
    assert [file.title for file in files if file.made == "numba"] == ["Numba", "Numba, in tiles"]
    made = {file.backend.name: file.made for file in files}
    assert (made["cpu_numba"], made["gpu_cupy"], made["gpu_wgpu"]) == ("numba", "cuda", "nothing")
    session = SimpleNamespace(confirmed={"text": "gray_scott", "dtype": "float64"})
    assert PARTS.code(session) == files


@pytest.mark.extended
def test_the_machine_code_is_that_of_the_text():
    files = generated_files("u_t = lap(u) + 1", "float32")
    for file, expected in zip((each for each in files if each.made == "numba"), ("step", "many_steps"), strict=True):
        listing = Asked(file, "float32", "sm_90", file.saved).task()(lambda *said: None)
        assert expected in {function.name for function in listing.functions}
