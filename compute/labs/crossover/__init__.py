"""Where does the GPU start to win? Small workloads, each written in many ways, and their time against n.

workload: the computations and the ways to write them, found in folders; ecosystems: the libraries that ways use;
runner: check and time one way at one n; plan, sweep: all ways and n, shuffled, until their quartiles settle; arrays:
the lease for large arrays; crossing, finding: where two curves cross, and the sentence that reports it; roofline:
measured rates against the measured roofs; lab, picture, panels: the live lab, its frames and its plots; benchmark,
results, recorded, claims: the bench, its records, and their verdict on the tutorials' figures; trap: pairs of a wrong
and a right program. cpu_*.py and gpu_*.py contain the lab's own kernels for each backend.
README.md describes the measurement.
"""

from compute.labs.crossover.lab import Crossover

__all__ = ["Crossover"]
