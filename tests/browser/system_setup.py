"""Setup file for `panel serve --setup`: two GPUs held down by the power cap, with a process of another program."""

import math
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from app.features.system import system_card
from compute.machine import gpu_nvml
from compute.machine import system as machine
from tests.fake_nvml import FakeNvml

LOST = Path(os.environ["LOST_GPU"])  # while this file exists, NVML reports the GPUs as lost


class Busy(FakeNvml):
    """The utilization of its second GPU varies, so that the history changes."""

    def _require(self, name: str) -> None:
        self.lost = LOST.exists()
        super()._require(name)
        self.percent = round(50 + 45 * math.sin(time.monotonic() / 4))


fake = Busy()
fake.use(2**22 + 7, 12.5)
fake.throttle = 0x4
fake.unsupported = {"nvmlDeviceGetTemperature"}
machine.AGAIN = 0.5  # s until a lost GPU is queried again
sys.modules["pynvml"] = fake
gpu_nvml.visible = lambda _order, names: range(len(names))  # both, although CUDA sees none, nor do the engines
gpu_nvml.shutil = SimpleNamespace(which=lambda _name: "/usr/bin/nvidia-smi")  # not shutil.which: CuPy uses it, too
system_card.machine = lambda: {"gpus": [{"name": name} for name in fake.names]}
