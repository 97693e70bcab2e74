"""`panel serve --setup` runs this: the recorded curves are those of a folder that a test has filled."""

import os
from pathlib import Path

import compute.measure.records

compute.measure.records.timings_folder = lambda: Path(os.environ["FIELDLAB_PLANTED"])
