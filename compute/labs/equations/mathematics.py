"""Equations as LaTeX, for MathML on the page. Made from the tree, so it shows how a text was understood."""

from __future__ import annotations

from compute.labs.equations.tree import LEVELS, BinaryOp, Call, Compare, Name, Negative, Node, Number, System

GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"),
        *("xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
        *("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"),
    )
)
DERIVATIVES = {
    "lap": r"\nabla^2",
    "dx": r"\partial_x",
    "dy": r"\partial_y",
    "dxx": r"\partial_x^2",
    "dyy": r"\partial_y^2",
    "dxy": r"\partial_x \partial_y",
    "div": r"\nabla \cdot",
    "grad": r"\nabla",
}
SIGNS = {"*": r" \, ", "<=": r" \le ", ">=": r" \ge "}
LEVEL_OF_PRODUCTS, LEVEL_OF_DERIVATIVES = 3, 4


def equations(system: System) -> str:
    """Return the equations and named expressions of a system, one per line, as LaTeX of an aligned block.

    Those of a long text may exceed the bounds of a converter to MathML; tree.words gives plain text.
    """
    lines = [rf"\partial_t {symbol(field)} &= {latex(rate)}" for field, rate in system.rates.items()]
    lines += [f"{symbol(name)} &= {latex(node)}" for name, node in system.named.items()]
    return r"\begin{align*}" + r" \\ ".join(lines) + r"\end{align*}"


def symbol(name: str) -> str:
    """Return a name as LaTeX: alpha as a Greek letter, Du as D with the index u, F1 as F with the index 1."""
    letters = name.rstrip("0123456789")
    digits = name[len(letters) :]
    if letters in GREEK:
        base, index = rf"\{letters}", digits
    elif len(letters) == 1 or (len(letters) == 2 and not digits and letters not in ("dt", "dx")):
        base, index = letters[0], letters[1:] + digits
    else:
        base, index = rf"\mathrm{{{letters}}}", digits
    return f"{base}_{{{index}}}" if index else base


def latex(node: Node, level: int = 0) -> str:
    """Return an expression as LaTeX, with brackets if it binds weaker than `level`."""
    match node:
        case Number(value):
            return _number(value)
        case Name(name):
            return symbol(name)
        case Negative(operand):
            own, text = LEVEL_OF_PRODUCTS, f"-{latex(operand, 4)}"
        case BinaryOp("/", Negative(left), right):
            own, text = LEVEL_OF_PRODUCTS, f"-{latex(BinaryOp('/', left, right))}"
        case BinaryOp("/", left, right):
            own, text = LEVEL_OF_DERIVATIVES, rf"\frac{{{latex(left)}}}{{{latex(right)}}}"
        case BinaryOp("^", base, exponent):
            own, text = LEVELS["^"], f"{latex(base, 6)}^{{{latex(exponent)}}}"
        case BinaryOp(op, left, right) | Compare(op, left, right):
            own = LEVELS[op]
            sign = r" \cdot " if op == "*" and isinstance(right, Number) else SIGNS.get(op, f" {op} ")
            first = 5 if op == "*" and _ends_in_derivative(left) else own
            text = latex(left, first) + sign + latex(right, own + 1)
        case Call(name, arguments):
            own, text = _call(name, arguments)
        case _:
            raise TypeError(f"{type(node).__name__} occurs in passes only")
    return rf"\left({text}\right)" if own < level else text


def _ends_in_derivative(node: Node) -> bool:
    """Return whether a factor after this expression would look differentiated, too."""
    if isinstance(node, BinaryOp) and node.op == "*":
        return _ends_in_derivative(node.right)
    return isinstance(node, Call) and node.name in DERIVATIVES


def _number(value: float) -> str:
    mantissa, _, exponent = f"{value:.7g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _call(name: str, arguments: tuple[Node, ...]) -> tuple[int, str]:
    """Return the level and the text of a call."""
    values = [latex(each) for each in arguments]
    if name in DERIVATIVES:
        return LEVEL_OF_DERIVATIVES, f"{DERIVATIVES[name]} {latex(arguments[0], 4)}"
    match name:
        case "sqrt":
            return 6, rf"\sqrt{{{values[0]}}}"
        case "abs":
            return 6, rf"\left|{values[0]}\right|"
        case "exp":
            return LEVELS["^"], f"e^{{{values[0]}}}"
        case "where":
            condition, then, other = values
            return 6, rf"\begin{{cases}}{then} & {condition} \\ {other} & \text{{otherwise}}\end{{cases}}"
        case "step":
            function = r"\Theta"
        case "noise":
            function = r"\mathrm{noise}"
        case _:
            function = rf"\{name}"
    return 6, rf"{function}\left({', '.join(values)}\right)"
