"""Setup file for `panel serve --setup`: the server reads recorded curves from the folder $FIELDLAB_PLANTED."""

import os
from pathlib import Path

import compute.measure.records

compute.measure.records.timings_folder = lambda: Path(os.environ["FIELDLAB_PLANTED"])
