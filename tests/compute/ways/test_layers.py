"""The crossover lab and `fieldlab try` share compute/ways; neither knows of the other."""

from __future__ import annotations

import pytest

from tests.sources import read

LAB, OWN = "compute.labs.crossover", "compute.own"


@pytest.mark.parametrize(("package", "barred"), [("compute.ways", (LAB, OWN)), (LAB, (OWN,)), (OWN, (LAB,))])
def test_shared_code_is_imported_from_the_shared_package(package, barred):
    sources = [source for source in read("compute") if f"{source.module}.".startswith(f"{package}.")]
    assert sources
    assert [
        f"{source.path} imports {name}"
        for source in sources for name in source.imports() if name.startswith(barred)
    ] == []  # fmt: skip
