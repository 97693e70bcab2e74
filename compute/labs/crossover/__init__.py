"""Where does the GPU start to win? Small workloads, each written in many ways, and their time against n.

ecosystems: the libraries to write in; catalogue: the workloads and their ways, found in folders; stand: one way at one
n, checked and timed; sweep: all of them, shuffled, until their quartiles settle; crossing: where two curves cross;
traps: pairs of a wrong and a right program. README.md says what is measured.
"""
