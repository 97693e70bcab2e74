"""Explanations of the diffusion lab's words, for app/page/explain.py, which finds them by the name of this file."""

# Explained wherever they first occur on the page.
WORDS = {
    "drift": "Drift: relative change of the total heat since the start. With closed edges it should be 0.",
    "heat": "Heat: sum of the field over all cells. With closed edges it is constant.",
}
# Explained as whole labels of the status bar: too general to be explained everywhere.
LABELS = {
    "r": "r = D Δt / Δx²: diffusion number. Above the limit next to it, the scheme is unstable.",
    "error against exact": "Error against exact: relative difference from the closed-form solution on the section.",
    "error of the racing kernel": "Error of the racing kernel: relative difference of its cells from correct ones.",
    "not finite": "Not finite: number of cells that are infinite or NaN, usually because the scheme is unstable.",
}
