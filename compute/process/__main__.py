"""`python -m compute.process DESCRIPTOR PRIORITY MODULE`: a child that runs tasks. Started by TaskProcess only."""

import sys

from compute.process.tasks import run_tasks

run_tasks(int(sys.argv[1]), low=sys.argv[2] == "low", ahead=sys.argv[3])
