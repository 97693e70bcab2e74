"""Where does the GPU start to win? Small workloads, each written in many ways, and their time against n.

workload: what is computed, and the ways to write it, found in folders; ecosystems: the libraries to write in; runner:
one way at one n, checked and timed; plan, sweep: all of them, shuffled, until their quartiles settle; arrays: whose
large arrays are in memory; crossing, finding: where two curves cross, and the sentence that says so; roofline: how near
they come to the measured roofs; lab, picture, panels: all that live; benchmark, results, recorded, claims: the bench,
its records, and what they say of the tutorials' figures; trap: pairs of a wrong and a right program. cpu_*.py and
gpu_*.py hold what the lab itself needs of a backend.
README.md says what is measured.
"""

from compute.labs.crossover.lab import Crossover

__all__ = ["Crossover"]
