"""Where does the GPU start to win? Small workloads, each written in many ways, and their time against n.

ecosystems: the libraries to write in; catalogue: the workloads and their ways, found in folders; stand: one way at one
n, checked and timed; plan, checks, sweep: all of them, shuffled, until their quartiles settle; crossing, finding: where
two curves cross, and the sentence that says so; roofline: how near they come to the measured roofs; lab, settings,
picture, state: all that live; workload, recorded, conclusions: the bench, its records, and what they say of the
tutorials' figures; traps, trap: pairs of a wrong and a right program. The files named like an ecosystem hold what the
lab itself needs of it.
README.md says what is measured.
"""

from compute.labs.crossover.lab import Crossover
from compute.labs.crossover.results import record_of

__all__ = ["Crossover", "record_of"]
