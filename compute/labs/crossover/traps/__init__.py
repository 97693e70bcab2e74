"""Pairs of programs that look alike, one wrong and one right. To add a pair, add a folder.

A folder `name/` holds README.md, an __init__.py with TITLE, CHAPTER (its place in a lecture) and SEEN (what the
numbers are, by key, with their unit), and two files `<ecosystem>_wrong.py` and `<ecosystem>_right.py` with a function
`run(n)` that returns what it saw as a dictionary of numbers. n is the size of the demonstration.
"""
