"""The same scene on another backend: the same picture, up to one level of 255 for values between two levels."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from msgspec import structs

from compute.export import render
from compute.export.scene import Scene, Style
from compute.labs.mandelbrot.views import VIEWS

REFERENCE = "cpu_numpy"
GREY = Style("Grey")
SCENES = [
    Scene("diffusion", {"ny": 61, "nx": 47, "preset": "hot spots"}, (61, 47), 300, look=GREY),
    Scene("diffusion", {"ny": 61, "nx": 47, "dtype": "float64"}, (61, 47), 300, "laplacian", GREY),
    Scene("mandelbrot", {"center": ("-0.7520", "0.1300"), "zoom": "40"}, (45, 61), look=GREY),
    Scene("mandelbrot", {**asdict(VIEWS["e14"]), "colouring": "smooth"}, (33, 41), look=GREY),
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.lab}-{scene.part or scene.values.get('zoom', '')}")
def test_a_picture_is_the_same_to_a_level(scene, any_backend):
    if not any_backend.has_kernels(scene.kind.PACKAGE):
        pytest.skip(f"{any_backend.name} has no kernels of this lab")
    if scene.values.get("dtype", "float32") not in any_backend.dtypes:
        pytest.skip(f"{any_backend.name} does not compute in this number type")
    single = (
        {"precision": "float32"} if scene.values.get("zoom") == "40" and "float64" not in any_backend.dtypes else {}
    )
    expected, found = (
        render.pixels(structs.replace(scene, values={**scene.values, **single, "backend": name}))
        for name in (REFERENCE, any_backend.name)
    )
    assert np.ptp(expected) > 100  # the picture is not empty
    assert np.abs(found.astype(int) - expected).max() <= 1 + 1  # a level is one or two greys
