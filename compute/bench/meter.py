"""The roofs of devices, measured in turn with what is compared with them."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from contextlib import closing

from compute.bench import bandwidth, fma
from compute.bench.bandwidth import Copies
from compute.bench.fma import Chains
from compute.bench.rates import Roof as Kind
from compute.devices import Device

LIVE_PIECES = {"cpu": 8, "gpu": 1}  # of a host's arrays: a sample beside a live picture then takes some 5 ms


def beside(device: Device, kind: Kind, dtype: str, count: int) -> Generator[None, None, tuple[float, ...]]:
    """`count` samples of a roof beside a live picture, in short slices; () where it cannot be measured.

    Before each sample one that does not count: after a rest the threads sleep.
    """
    if kind == "fma" and not fma.measurable(device):
        return ()
    pieces = LIVE_PIECES[device.kind]
    rates = []
    with closing(Copies(device, pieces, live=True) if kind == "copy" else Chains(device, dtype)) as probe:
        for _ in probe.prepare():
            yield
        for _ in range(count):
            probe.sample()
            rates.append(probe.sample())
            yield
    return tuple(rates)


class Meter:
    """`sample` takes one sample of each of `kinds` on each device; they count in copy_bandwidth and fma_rate.

    The arrays are made by the first sample; `close` gives them back, and a later sample makes them again. live: beside
    a picture, so they are as small as the caches allow.
    """

    def __init__(self, devices: Iterable[Device], kinds: Collection[Kind], dtype: str, live: bool = False) -> None:
        self._dtype = dtype
        self._copies: list[tuple[Device, Copies]] = []
        self._chains: list[tuple[Device, Chains]] = []
        for device in devices:
            if "copy" in kinds:
                self._copies.append((device, Copies(device, live=live)))
            if "fma" in kinds and fma.measurable(device):
                self._chains.append((device, Chains(device, dtype)))

    def sample(self) -> None:
        """One of each; takes some 50 ms a device."""
        for device, copies in self._copies:
            bandwidth.note(device, copies.sample(), copies.array_bytes)
        for device, chains in self._chains:
            fma.note(device, self._dtype, chains.sample())

    def close(self) -> None:
        """Give all memory back."""
        for _, copies in self._copies:
            copies.close()
        for _, chains in self._chains:
            chains.close()
