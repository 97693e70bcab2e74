"""Explanations of the equations lab's words, for app/page/explain.py, which finds them by the name of this file."""

# Explained wherever they first occur on the page.
WORDS = {
    "Gvalue/s": "Gvalue/s: 10⁹ values advanced by one step, per second; a cell has one of each field. More is faster.",
    "billion values/s": "Gvalue/s: 10⁹ values advanced by one step, per second; a cell has one of each field.",
}
# Explained as whole labels of the status bar: too general to be explained everywhere.
LABELS = {
    "t": "t: simulated time since the start, in units of the text.",
    "Δt": "Δt: time step. Above its bound the scheme is unstable; the bound is that of the present state.",
    "range": "Range: smallest and largest finite value of the first picture.",
    "integral": "Integral: sum of the first picture outside walls, times Δx Δy; both are dx of the text.",
}
