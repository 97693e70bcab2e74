"""`python -m compute.engine DESCRIPTOR DEVICE`: the worker process. Started by WorkerProcess only."""

import sys

from compute.engine.worker import main

main(int(sys.argv[1]), sys.argv[2])
