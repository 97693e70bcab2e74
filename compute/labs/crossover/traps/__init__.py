"""Pairs of programs that look alike, one wrong and one right. To add a pair, add a folder.

A folder `name/` contains README.md, an __init__.py with TRAP, a `compute.labs.crossover.trap.Trap`, and two files
`<ecosystem>_wrong.py` and `<ecosystem>_right.py` with a function `run(n)` that returns its results as a dictionary of
numbers, by the keys of `seen`. n is the size of the demonstration.
"""
