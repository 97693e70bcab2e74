"""The language: what a text means, where its errors are, and that no text harms."""

from __future__ import annotations

import pickle
import random

import pytest

from compute.labs.equations.language import ARITIES, FUNCTIONS, MOST_CHARACTERS, TAKEN, read
from compute.labs.equations.passes import MOST_LOWERED, lower, picture, rates
from compute.labs.equations.presets import presets
from compute.labs.equations.reference import Evaluator
from compute.labs.equations.tree import Edge, EquationError, Parameter, Power, children, words


def rate(expression, **values):
    """The value of a right side with the given numbers."""
    head = "".join(f"{name} = {value} in [{min(value, 0)}, 9]\n" for name, value in values.items())
    return Evaluator({name: float(value) for name, value in values.items()})(
        read(f"{head}u_t = {expression}").rates["u"]
    )


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2*3", 7),
        ("2*3 + 1", 7),
        ("8 - 3 - 2", 3),
        ("8/4/2", 1),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^-1", 0.5),
        ("2**3", 8),
        ("-a^2", -9),
        ("--a", 3),
        ("+a - -a", 6),
        ("2*-a", -6),
        ("a/2*b", 7.5),
        ("a - b*a^2", -42),
        ("-a*b", -15),
        ("1e2 + .5 + 1.", 101.5),
        ("max(a, b) - min(a, b)", 2),
        ("where(a < b, 1, 2) + where(a >= b, 10, 20)", 21),
        ("step(a) + step(-a) + step(0)", 1),
        ("abs(-a) + sqrt(4) + exp(0)", 6),
    ],
)
def test_operators_bind_as_in_mathematics(expression, value):
    assert rate(expression, a=3, b=5) == pytest.approx(value)


def test_a_constant_exponent_becomes_a_number():
    system = read("n = 1 + 1; u_t = u^n + u^(n/4) + u^-n")
    assert words(system.rates["u"]) == "u^2 + u^0.5 + u^(-2)"


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)",
        "(a + b)*c",
        "-(a + b)",
        "a^-b",
        "(a^b)^c",
        "a^b^c",
        "a/(b*c)",
        "(-a)^2",
        "(a - b)*c",
        "(a/b)*c",
        "a*(b/c)",
    ],
)
def test_words_reads_back_as_the_same_tree(text):
    values = {"a": 2.0, "b": 3.0, "c": 2.0}
    head = "".join(f"{name} = {value}\n" for name, value in values.items())
    tree = read(f"{head}u_t = {text}").rates["u"]
    assert read(f"{head}u_t = {words(tree)}").rates["u"] == tree
    assert Evaluator(values)(tree) == pytest.approx(eval(text.replace("^", "**"), {}, values))


def test_a_text_has_all_settings():
    system = read(
        "u_t = D*lap(u); v_t = q  # two equations\n"
        "D = 0.2 in [-1, 1e1]\nq = u - v\nu(0) = noise(3) + x\nedges: zero-flux; v: fixed -0.5\n"
        "wall = step(x); wall: zero-flux; show = u*q; scheme: rk3; dx = 0.5; dt = 0.1"
    )
    assert system.fields == ["u", "v"]
    assert system.parameters == {"D": Parameter(0.2, -1, 10)}
    assert (words(system.rates["u"]), words(system.named["q"]), words(system.show)) == ("D*lap(u)", "u - v", "u*q")
    assert (system.scheme, system.dx, system.dt, system.closed) == ("rk3", 0.5, 0.1, True)
    assert (system.edge("u"), system.edge("v")) == (Edge("zero-flux"), Edge("fixed", -0.5))
    assert system.edge("aux_1") == Edge("zero-flux")


def test_a_comment_may_hold_other_letters():
    assert read("u_t = u  # für α").fields == ["u"]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("u_t = lap(u", (1, 12), "expected ')' for the '(' in column 10"),
        ("u_t = u\nv_t = sinn(u)", (2, 7), "did you mean 'sin'"),
        ("alpha = 2\nu_t = alhpa*u", (2, 7), "did you mean 'alpha'"),
        ("u_t = u + v2", (1, 11), "give it a value: v2 = 1 in [0, 2]"),
        ("u_t = 2u", (1, 8), "a product needs *"),
        ("u_t = u(1 - u)", (1, 8), "a product needs *"),
        ("u_t = u\n\n  v_t = u*/2", (3, 11), "expected a number, a name or '('"),
        ("u_t = lap(u, 3)", (1, 7), "lap takes 1 argument, not 2"),
        ("u_t = max(u)", (1, 7), "max takes 2 arguments, not 1"),
        ("u_t = sin", (1, 7), "write sin(…)"),
        ("u_t = grad(u)", (1, 7), "div(D*grad(u)) only"),
        ("u_t = div(u)", (1, 7), "div(D*grad(u))"),
        ("u_t = where(u, 1, 2)", (1, 14), "needs a comparison"),
        ("u_t = u > 3", (1, 9), "expected an operator or the end"),
        ("u_t = u[0]", (1, 8), "expected an operator or the end"),
        ("u_t = u.x", (1, 8), "unexpected character"),
        ("u_t = 1e999*u", (1, 7), "range of float32"),
        ("u_t = u^99", (1, 9), "-64 … 64"),
        ("u_t = u^(1/0)", (1, 11), "a constant is not finite"),
        ("u_t = u^0/0", (1, 10), "a constant is not finite"),
        ("u_t = u + log(-2)", (1, 11), "a constant is not finite"),
        ("a = 1e20; b = a*a; u_t = b", (1, 16), "outside 1e-30 … 1e+30"),
        ("u_t = exp(-100)", (1, 7), "outside 1e-30 … 1e+30"),
        ("u_t = (0 - 8)^(1/3)", (1, 14), "a constant is not finite"),
        ("u_t = u; F = 3 in [0, 1]", (1, 14), "F = 3 is outside its range [0, 1]"),
        ("u_t = u; F = 3 in [4, 1]", (1, 14), "must be ascending"),
        ("u_t = u; F = 1 in [0, 2]; F = 2", (1, 27), "F is defined twice"),
        ("u_t = u; u = 3", (1, 10), "u is defined twice"),
        ("u_t = u; u_t = 3", (1, 10), "u is defined twice"),
        ("u_t = q; q = p1; p1 = 2", (1, 14), "not defined yet"),
        ("u_t = u; q = q + 1", (1, 14), "not defined yet"),
        ("u_t = u; u(0) = u", (1, 17), "cannot depend on the field 'u'"),
        ("u_t = u; u(0) = lap(x)", (1, 17), "cannot have derivatives"),
        ("u_t = u; q = u; u(0) = q", (1, 24), "cannot depend on the field 'q'"),
        ("u_t = u; u(0) = noise(1.5)", (1, 17), "whole number"),
        ("u_t = u; u(0) = noise(4294967296)", (1, 17), "whole number"),
        ("u_t = u; u(1) = 2", (1, 10), "an initial value begins with u(0) = …"),
        ("u_t = noise(1)", (1, 7), "initial values and walls only"),
        ("u_t = u; w(0) = 1", (1, 10), "w(0) has no equation w_t"),
        ("u_t = u; edges: perodic", (1, 17), "did you mean 'periodic'"),
        ("u_t = u; scheme: rk4", (1, 18), "euler, rk3, symplectic"),
        ("u_t = u; w: fixed 1", (1, 10), "unknown field 'w'"),
        ("u_t = u; dt = -1", (1, 10), "dt = -1 is outside 1e-06"),
        ("u_t = u; dx = 1e9", (1, 10), "dx = 1e+09 is outside"),
        ("u_t = u; for = 3", (1, 10), "belongs to the language or to a compiler"),
        ("u_t = u; a_b = 3", (1, 10), "letters and digits"),
        ("u_t = u; x = 3", (1, 10), "belongs to the language"),
        ("u_t = lap(α)", (1, 11), "U+03B1"),
        ("u_t = u\n\x07", (2, 1), "U+0007"),
        ("", (1, 1), "the text needs an equation"),
        ("u_t = lap(lap(lap(lap(lap(lap(u))))))", (1, 1), "derivatives of more than 4 expressions"),
    ],
)
def test_an_error_has_its_place(text, place, message):
    with pytest.raises(EquationError) as caught:
        lower(read(text))
    error = caught.value
    assert (error.line, error.column) == place
    assert message in error.message
    shown = str(error).split("\n")
    assert shown[1].strip() == error.source.replace("\x07", " ").strip()
    assert shown[2].index("^") - 4 == error.column - 1


def test_an_error_survives_pickling():
    with pytest.raises(EquationError) as caught:
        read("u_t = u\nv_t = lap(u")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("limit", ["equations", "parameters", "numbers, names and operations", "characters", "deep"])
def test_bounds_are_reported(limit):
    text = {
        "equations": "\n".join(f"u{number}_t = 1" for number in range(5)),
        "parameters": "u_t = 1\n" + "\n".join(f"a{number} = 1 in [0, 2]" for number in range(13)),
        "numbers, names and operations": "\n".join(f"a{number} = 1 + 2 + 3" for number in range(101)) + "\nu_t = 1",
        "characters": "u_t = 1 #" + "." * MOST_CHARACTERS,
        "deep": f"u_t = {'(' * 41}u{')' * 41}",
    }[limit]
    with pytest.raises(EquationError, match=limit):
        read(text)


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_no_field_or_parameter_has_a_name_of_a_compiler(name):
    for text in (f"{name}_t = 1", f"u_t = 1; {name} = 1 in [0, 2]", f"u_t = 1; {name} = 2"):
        with pytest.raises(EquationError):
            read(text)


def nodes(tree):
    assert not isinstance(tree, Power) or 2 <= tree.exponent <= 8
    return 1 + sum(nodes(each) for each in children(tree))


def survives(text):
    """Read and lower a text: every pass is bounded, or EquationError. Return whether it was accepted."""
    try:
        system = read(text)
        passes = [*lower(system).passes, *rates(system), *picture(system)]
    except EquationError as error:
        if len(str(error)) > 500:
            raise
        return False
    for each in passes:
        assert sum(nodes(statement.value) for statement in each.statements) <= MOST_LOWERED
        names = [*each.arguments, *(statement.name for statement in each.statements)]
        assert len(set(names)) == len(names)
    return True


def doubling(count, first, last):
    """Names, each of which uses the one above twice."""
    lines = [f"a0 = {first}", *(f"a{number} = a{number - 1}*a{number - 1} + 1" for number in range(1, count))]
    return "\n".join([*lines, "u_t = " + last.format(f"a{count - 1}")])


_INJECTED = (
    "__import__('os').system('id')|u.__class__|u;import os|exec(1)|eval(u)|lambda: u|[u for u in u]|"
    'u if u else 0|(u := 3)|{u}|u[0]|u\'|"u"|f"{u}"|u\\\n|*/ u /*|// u|#define u 3|u;;;u|u = v = 3|u == 3|'
    "u != 3|u && v|u || v|!u|~u|u % 2|u << 2|@u|$u|`u`|u?1:2|&u|*u|u->x|u::x|%s|{0}|${u}|<script>|u, v|(u, v)|"
    "u..v|1..2|1.2.3|0x1F|1_000|1e|1e+|1e-|.e3|.|1j|0b1|inf|nan|None|True|print(u)|open(u)|u()|()|((|))|u)(|,|"
    ",u|u,|lap|lap()|lap(,)|lap(u,)|grad(u)*grad(u)|div(div(u))|div(grad(u)*grad(u))|div(grad(u)+grad(u))|"
    "div(u*grad)|where(u<v<1,1,2)|where(u<1)|where(1<2,where,1)|u<1|min(u<1,2)|9^9^9^9^9|u^9^9^9|u^-9^9|"
    "u^u^u^u^u^u|(-8)^(1/3)|0^-1|0/0|1/0|u^(1e30^9)|1e30*1e30*1e30|1e-31|1e31|-1e31|noise(u)|noise()|noise(-1)|"
    "in|in [0,1]|0 in [0,1]|edges|wall|show|dt|t_t|u_t_t|_|__|_t|u_|u__t|pi(3)|x(0)|u(0)|u(0)(0)|sin sin u|"
    "sin(sin)"
)
INJECTED = _INJECTED.split("|")
_STATEMENTS = (
    "u|=|:|;|u:|u=|:u|=u|u_t|u_t:|u_t=|u(0)|u(0|u(|u(0)=|u(1)=2|u()=1|(0)=1|u(0)(0)=1|0_t=1|1=2|u_t_t=1|_t=1|"
    "__t=1|-u_t=1|u_t,v_t=1,2|edges|edges:|edges: :|edges: fixed fixed|edges: fixed 1 2|edges: fixed x|"
    "edges: periodic 3|edges: zero-|edges: zero-flux-|edges: -|edges = periodic|scheme|scheme:|scheme = |"
    "scheme: rk3 rk3|scheme: 3|wall|wall:|wall: 3|wall = u|wall = lap(x)|show = noise(1)|show =|dt|dt:|dt = x|"
    "dt = 0|dt = 1e-99|dx = -1|dx = 1/0|F = in [0,1]|F = 1 in|F = 1 in [|F = 1 in [0|F = 1 in [0,|"
    "F = 1 in [0,1|F = 1 in [0 1]|F = 1 in [1,1]|F = x in [0,1]|F = 1 in [0,1] 2|F = 1 in (0,1)|"
    "F = 1e40 in [0,1e41]|F in [0,1]|in = 1 in [0,1]|pi = 3|t_t = 1|x = 1|sin = 1|edges_t = 1|wall_t = 1|"
    "lap = 2|verylongnameverylongname = 1|u1_t2 = 3|é = 1|F=1 in [0,2];F=1 in [0,2]|u(0)=1;u(0)=2|dt=1;dt=1"
)
STATEMENTS = _STATEMENTS.split("|")
REPEATED = [
    *(f"{name}({{}})" for name in ARITIES if ARITIES[name] == 1),
    *(
        "({})",
        "-{}",
        "+{}",
        "u+{}",
        "u-({})",
        "u*{}",
        "u/({})",
        "{}+u",
        "{}*u",
        "{}^2",
        "2^{}",
        "u^({})",
        "min(u,{})",
        "max({},u)",
    ),
    *(
        "where(u<{},1,2)",
        "where(u<1,{},2)",
        "where({}<1,{},2)",
        "div({}*grad({}))",
        "div(grad({}))",
        "{}*{}",
        "sin({}+{})",
    ),
]
_CHARACTERS = (
    "\x00 \x0b \x1b \x7f \x85 \xa0 \u00b2 \u0430 \u200b \u202e \u2028 \ufeff \uff11 \U0001f600 \ud800 \r \u0660"
)
CHARACTERS = _CHARACTERS.split(" ")
BLOWN_UP = [
    *(
        doubling(count, first, last)
        for count in (5, 12, 30)
        for first in ("u", "x", "lap(u)")
        for last in ("{}", "lap({})", "div({}*grad(u))")
    ),
    *(f"u_t = {sign.join(['u'] * count)}" for sign in "+-*/^" for count in (30, 240, 1900)),
    *(f"u_t = lap({'*'.join(['u^64'] * count)})" for count in (2, 8, 30)),
    *(f"u_t = {'+'.join([f'dxy(u^{number})' for number in range(2, 2 + count)])}" for count in (2, 30)),
    "u_t = 1\n" * 500,
    ";" * MOST_CHARACTERS,
    "\n" * MOST_CHARACTERS,
    "(" * MOST_CHARACTERS,
    "u_t = " + "9" * 3900,
    "u_t = " + "a" * 3900,
    "u_t = u #" + "a" * MOST_CHARACTERS,
    "u_t = 0." + "0" * 3900 + "1",
    "\n".join(f"f{number}_t = {'lap(' * 4}f{number}{')' * 4}" for number in range(4)),
    "scheme: symplectic\n"
    + "\n".join(f"f{number}_t = lap(f{(number + 1) % 4}) + f{(number + 2) % 4}" for number in range(4)),
    "".join(f"a{number}=1;" for number in range(500)) + "u_t=1",
]
HOSTILE = [
    *(f"u_t = {each}" for each in INJECTED),
    *(f"u_t = u; u(0) = {each}" for each in INJECTED),
    *(f"u_t = u\n{each}" for each in STATEMENTS),
    *(f"u_t = u{each}" for each in CHARACTERS),
    *BLOWN_UP,
]


def nested(pattern, depth):
    text = "u"
    for _ in range(depth):
        if len(text) > MOST_CHARACTERS:
            break
        text = pattern.replace("{}", text)
    return text


def test_hostile_texts_are_bounded():
    accepted = [text for text in HOSTILE if survives(text)]
    assert len(set(HOSTILE)) >= 300
    assert len(accepted) < len(HOSTILE) / 3


@pytest.mark.parametrize("depth", [3, 10, 39, 60, 3000])
def test_nested_texts_are_bounded(depth):
    for pattern in REPEATED:
        survives(f"u_t = {nested(pattern, depth)}")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_presets_are_bounded(seed):
    rng = random.Random(seed)
    pieces = [*"()+-*/^,;:=<>[]#\n ", "u", "lap(", "_t", "0", "in", "dx", "where(", "grad(", *FUNCTIONS]
    for preset in presets().values():
        for _ in range(40):
            text = preset.text
            for _ in range(rng.choice((1, 1, 2, 8))):
                at, length = rng.randrange(len(text)), rng.choice((0, 1, 1, 5, 40))
                text = (
                    text[:at]
                    + rng.choice(["", rng.choice(pieces), text[rng.randrange(len(text)) :][:20]])
                    + text[at + length :]
                ) or "u"
            survives(text)


def expression(rng, depth):
    """A random valid expression."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("u", "v", "x", "y", "t", "F", "1", "2.5", "0", "pi", "Lx", "q"))
    inner = [expression(rng, depth - 1) for _ in range(4)]
    function = rng.choice([name for name in ARITIES if ARITIES[name] == 1 and name not in ("div", "grad", "noise")])
    exponent = rng.choice(("2", "3", "-2", "0.5", "v", "9", "17", "(1/3)", "0"))
    return rng.choice(
        (
            f"({inner[0]} {rng.choice('+-*/')} {inner[1]})",
            f"({inner[0]})^{exponent}",
            f"-{inner[0]}",
            f"where({inner[0]} {rng.choice(('<', '>', '<=', '>='))} {inner[1]}, {inner[2]}, {inner[3]})",
            f"{function}({inner[0]})",
            f"div({inner[0]}*grad({inner[1]}))",
        )
    )


@pytest.mark.parametrize("seed", range(300))
def test_random_systems_are_bounded(seed):
    rng = random.Random(seed)
    survives(
        f"q = {expression(rng, 3)}\nu_t = {expression(rng, 4)}\nv_t = {expression(rng, 4)}\nF = 1 in [0, 2]"
        f"\nscheme: {rng.choice(('euler', 'rk3', 'symplectic'))}\nshow = {expression(rng, 3)}"
        f"\nedges: {rng.choice(('periodic', 'zero-flux', 'fixed 1'))}"
        f"{rng.choice(('', '; wall = x - 3', '; wall = x - 3; wall: zero-flux'))}"
    )


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(8))
def test_random_words_are_bounded(seed):
    rng = random.Random(seed)
    pieces = [
        "u",
        "v",
        "x",
        "t",
        "F",
        "1",
        "2.5",
        "^",
        "*",
        "+",
        "-",
        "/",
        "(",
        ")",
        ",",
        "<",
        "lap(",
        "div(",
        "*grad(",
        "=",
        "_t",
    ]
    pieces += [f"{name}(" for name in ARITIES] + [
        "u_t = ",
        "\nv_t = ",
        "\nF = 1 in [0, 2]\n",
        "\nu(0) = ",
        "\nwall = ",
        ";",
    ]
    for _ in range(3000):
        survives("u_t = " + "".join(rng.choice(pieces) for _ in range(rng.randrange(60))))
