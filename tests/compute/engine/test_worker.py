"""The preparation of an engine's process before its first lab."""

from __future__ import annotations

import pytest

from compute.devices.backends import Backend
from compute.engine.worker import open_ahead


@pytest.fixture
def opened(monkeypatch):
    """The devices that are opened, as (backend, number), on a machine with all backends."""
    devices: list[tuple[str, int]] = []
    monkeypatch.setattr(Backend, "missing", None)
    monkeypatch.setattr(Backend, "open_device", lambda self, index: devices.append((self.name, index)))
    return devices


@pytest.mark.parametrize(
    ("engine", "device"),
    [("host", ("cpu_numba", 0)), ("webgpu:0", ("gpu_wgpu", 0)), ("cuda:1", ("gpu_cupy", 1))],
)
def test_the_device_of_a_new_page_is_opened_ahead(opened, engine, device):
    open_ahead(engine)
    assert opened == [device]


def test_nothing_is_opened_without_a_usable_backend(opened, monkeypatch):
    monkeypatch.setattr(Backend, "missing", "the driver is too old")
    open_ahead("cuda:0")
    assert opened == []


def test_a_device_that_cannot_be_opened_is_logged_and_left_to_the_labs(opened, monkeypatch, caplog):
    def fail(self: Backend, index: int) -> None:
        raise RuntimeError(f"GPU {index} was lost")

    monkeypatch.setattr(Backend, "open_device", fail)
    open_ahead("cuda:1")
    assert "GPU 1 was lost" in caplog.text
