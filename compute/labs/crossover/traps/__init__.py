"""Pairs of programs that look alike, one wrong and one right. To add a pair, add a file, and a row to trap.TRAPS.

The file is named <ecosystem>_<trap>.py, and its docstring describes the trap in Markdown. Two functions,
`@way("<ecosystem>_wrong")` and `@way("<ecosystem>_right")`, return their results as a dictionary of numbers, by the
keys of the trap's `seen`. Their argument n is the size of the demonstration.
"""
