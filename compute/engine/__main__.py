"""`python -m compute.engine DESCRIPTOR DEVICE`: the worker process. Started by WorkerProcess only.

The modules' objects, 100 000, stay. While they are made nothing is collected, which took a fifth of a start's
processor time, and no later collection looks through them.
"""

import gc
import sys

gc.disable()

from compute.engine.worker import main  # noqa: E402 - nothing is collected while it is imported

gc.freeze()
gc.enable()
main(int(sys.argv[1]), sys.argv[2])
