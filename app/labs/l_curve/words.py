"""Explanations of the L-curve lab's words, for app/page/explain.py, which finds them by the name of this file."""

# Explained wherever they first occur on the page.
WORDS = {
    "ribbon": "Ribbon: the band that contains the exact L-curve. It narrows with every step.",
    "products/s": "Products per second: multiplications of the matrix or its transpose with a vector. More is faster.",
    "products": "Products: multiplications of the matrix or its transpose with a vector.",
    "residual norm": "Residual norm ‖Ax − b‖: the part of the data that the solution does not explain.",
}
# Explained as whole labels of the status bar: too general to be explained everywhere.
LABELS = {
    "λ": "λ: weight of a small solution against a small residual. A large λ is smooth, a small one noisy.",
    "‖Ax−b‖": "‖Ax − b‖, residual norm: the part of the data that the solution at this λ does not explain.",
    "‖x‖": "‖x‖, solution norm: the size of the solution at this λ. Amplified noise increases it.",
    "‖x′‖": "‖x′‖: the size of the differences of neighbouring values of x at this λ. A constant x has none.",
    "‖x″‖": "‖x″‖: the size of the second differences of x at this λ. A straight line has none.",
}
