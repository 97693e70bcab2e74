"""Explanations of the crossover lab's words, for app/page/explain.py, which finds them by the name of this file."""

# Explained as whole labels of the status bar: too general to be explained everywhere.
LABELS = {
    "done": "Done: the measured fraction of the sweep over n.",
    "measuring for": "Measuring for: running time of this sweep.",
    "of": "Of: the workload and the number type that are measured.",
}
