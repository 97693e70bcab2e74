from __future__ import annotations

import pytest

from compute.measure import verdict


@pytest.fixture
def host_only(monkeypatch):
    """Restrict comparisons to the two backends that are always available, on two threads."""
    monkeypatch.setattr(verdict, "cpu_count", lambda: 2)
    monkeypatch.setattr(verdict, "BACKENDS", [one for one in verdict.BACKENDS if one.device == "host"])
