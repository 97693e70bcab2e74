"""`python -m compute.engine DESCRIPTOR DEVICE`: the worker process. Started by WorkerProcess only.

The modules create about 100 000 objects that live as long as the process. Garbage collection is disabled during the
imports, where it used a fifth of the startup's processor time; `gc.freeze` then excludes these objects from all later
collections.
"""

import gc
import sys

gc.disable()

from compute.engine.worker import main  # noqa: E402 - nothing is collected while it is imported

gc.freeze()
gc.enable()
main(int(sys.argv[1]), sys.argv[2])
