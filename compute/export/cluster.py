"""Frames and rows made through Dask, on one machine or on many. What a lost worker had is made by the others."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from itertools import islice
from typing import Any

from compute.export.render_pool import AHEAD, Made, Work, WorkerLost, found
from compute.export.scene import SceneError

INSTALL = "pip install 'fieldlab[cluster]'"
LOCAL = "local"
PATIENCE = "20s"  # to find the scheduler
LOSSES = 5  # workers that one frame may take with it before it is given up


class Cluster:
    """The Dask cluster whose scheduler is at `address` (tcp://host:port); "local" for one of `workers` processes here.

    The workers need the same Fieldlab. SceneError if Dask is not installed or nobody answers at the address.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        try:
            self._dask: Any = import_module("distributed")
        except ModuleNotFoundError as error:
            raise SceneError(f"--scheduler needs the package distributed: {INSTALL}") from error
        self.address, self.workers = address, workers

    def make(self, work: Work, numbers: Sequence[int]) -> Generator[Made]:
        """See RenderPool; a film whose frames follow from one another is refused.

        WorkerLost if one part has taken more than LOSSES workers with it, on a cluster of any settings.
        """
        if work.sequential:
            raise SceneError(
                "frames that follow from one another (--every) are made on one machine: leave --scheduler out"
            )
        task, plain = found(work.task), work.plain()
        with self._client() as client:
            size = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
            coming, lost = iter(numbers), Counter[int]()
            numbered: dict[str, int] = {}

            def given(number: int) -> Any:
                """The part as it is being made."""
                future = client.submit(task, plain, number, pure=False)
                numbered[future.key] = number
                return future

            waiting = self._dask.as_completed([given(number) for number in islice(coming, AHEAD * size)])
            for done in waiting:
                number = numbered.pop(done.key)
                try:
                    made = done.result()
                except self._dask.KilledWorker as error:  # as many as the scheduler allows, which is its own affair
                    lost[number] += 1 + error.allowed_failures
                    if lost[number] > LOSSES:
                        raise WorkerLost(f"part {number} took {lost[number]} workers with it") from error
                    waiting.add(given(number))
                    continue
                yield made
                done.release()
                for following in islice(coming, 1):
                    waiting.add(given(following))

    def _client(self) -> Any:
        if self.address == LOCAL:
            with import_module("dask").config.set({"distributed.scheduler.allowed-failures": LOSSES}):
                cluster = self._dask.LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None,
                    preload=[__name__],
                )  # fmt: skip
            return _Owned(self._dask.Client(cluster), cluster)
        try:
            return self._dask.Client(self.address, timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise SceneError(f"no Dask scheduler answers at {self.address}: {error}") from error


class _Owned:
    """A client and the cluster that was made for it."""

    def __init__(self, client: Any, cluster: Any) -> None:
        self._client, self._cluster = client, cluster

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(OSError) if kind else nullcontext():  # workers that are gone are not why it ends
            self._client.close()
            self._cluster.close()


def dask_setup(_worker: object) -> None:
    """Dask calls this in every worker made here: Ctrl-C is their master's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
