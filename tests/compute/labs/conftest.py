"""Fixtures for the tests of several labs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compute.engine import Supervisor
from tests.compute.engine.faulty import running


@pytest.fixture(scope="module")
def engine() -> Iterator[Supervisor]:
    """Yield an engine of the host."""
    yield from running()
