"""Setup file for `panel serve --setup`: names of ways, workloads, machines and backends contain markup."""

import os
from pathlib import Path

import compute.measure.records
from compute.ways.catalogue import workloads
from compute.ways.workload import Program
from tests.browser.test_hostile_text import MARKUP

label = Program.label.fget
Program.label = property(lambda program: label(program) + MARKUP)
for workload in workloads():
    object.__setattr__(workload, "title", workload.name + MARKUP)
name = compute.measure.records.machine_name
compute.measure.records.machine_name = lambda machine: name(machine) + MARKUP
compute.measure.records.timings_folder = lambda: Path(os.environ["FIELDLAB_PLANTED"])
