"""What several test files need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compute.backends import BACKENDS, Backend
from compute.labs.diffusion import Diffusion


def backend_cases() -> list[Any]:
    """Every backend as a test case; those that need a GPU carry its mark."""
    return [pytest.param(b, id=b.name, marks=[pytest.mark.gpu] if b.device == "cuda" else []) for b in BACKENDS]


@pytest.fixture(params=backend_cases())
def any_backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn; skipped with its reason where it is missing."""
    backend: Backend = request.param
    if backend.missing:
        pytest.skip(f"{backend.name}: {backend.missing}")
    return backend


@pytest.fixture
def diffusion(any_backend: Backend) -> Iterator[Callable[..., Diffusion]]:
    """Makes diffusion labs in each backend in turn and closes them."""
    labs: list[Diffusion] = []

    def make(**values: Any) -> Diffusion:
        labs.append(Diffusion(backend=any_backend.name, **values))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()
