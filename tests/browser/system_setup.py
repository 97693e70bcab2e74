"""`panel serve --setup` runs this: the machine has two GPUs, one of them hot, and another's process on both."""

import math
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from app import system_card
from compute import gpu_nvml
from compute import system as machine
from tests.fake_nvml import FakeNvml

LOST = Path(os.environ["LOST_GPU"])  # while this file exists, the GPUs do not answer


class Busy(FakeNvml):
    """Its second GPU's use moves, so that there is something to see."""

    def _require(self, name: str) -> None:
        self.lost = LOST.exists()
        super()._require(name)
        self.percent = round(50 + 45 * math.sin(time.monotonic() / 4))


fake = Busy()
fake.use(2**22 + 7, 12.5)
fake.throttle = 0x4
fake.unsupported = {"nvmlDeviceGetTemperature"}
machine.AGAIN = 0.5  # seconds until a lost GPU is looked for again
sys.modules["pynvml"] = fake
gpu_nvml.visible = lambda _order, names: range(len(names))  # both; CUDA is shown none, and so are the engines
gpu_nvml.shutil = SimpleNamespace(which=lambda _name: "/usr/bin/nvidia-smi")  # its own: CuPy asks shutil, too
system_card.machine = lambda: {"gpus": [{"name": name} for name in fake.names]}
