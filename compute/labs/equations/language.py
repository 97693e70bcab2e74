"""The language of the equations lab: a text is parsed into a System; nothing in it is executed.

    u_t = E                        an equation; at most 4
    u(0) = E                       the initial value, default 0; may use noise(seed), uniform in -1 … 1, and image,
                                   the brightness of the loaded image, 0 … 1
    F = 0.037 in [0, 0.1]          a parameter with a slider; at most 12
    q = E                          a name for an expression or a number; it may use the names above
    edges: periodic                or zero-flux, or fixed 0.3; u: … for one field
    wall = E                       cells where it is positive keep their first value; it may use both, too
    wall: zero-flux                nothing flows through the faces of these cells; otherwise fixed, the default
    show = E                       the second picture
    scheme: rk3                    or euler, symplectic
    dx = 0.5                       the width of a cell; default 1
    dt = 0.1                       the time step; by default 90 % of the stability bound

One statement per line, or several separated by ";". "#" starts a comment. E has + - * / ^ (right-associative, before
signs), brackets, the functions of FUNCTIONS, where(a < b, then, else), the derivatives of DERIVATIVES, and x y t Lx Ly
pi. Derivatives may be nested.

The text may come from a link. Its characters, length, nodes and depth are bounded before and during reading, and every
fault raises EquationError. The parser's recursion is bounded by MOST_DEPTH.
"""

from __future__ import annotations

import difflib
import keyword
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, cast, get_args

from compute.labs.equations.tree import (
    COORDINATES,
    IMAGE,
    SCHEMES,
    SYSTEM_NUMBERS,
    BinaryOp,
    BinaryOperator,
    Call,
    Compare,
    Comparison,
    Edge,
    EdgeKind,
    EquationError,
    Name,
    Negative,
    Node,
    Number,
    Parameter,
    SchemeName,
    System,
    children,
)

MOST_CHARACTERS, MOST_NODES, MOST_DEPTH = 4000, 500, 40  # the depth includes that of names, and counts each operator
MOST_FIELDS, MOST_PARAMETERS, MOST_NAME_CHARACTERS = 4, 12, 16
MOST_EXPONENT = 64
LEAST, MOST = 1e-30, 1e30  # magnitudes of numbers, within float32's normal range
LEAST_SETTING, MOST_SETTING = 1e-6, 1e6  # of dx and dt

DERIVATIVES = {"lap": 1, "dx": 1, "dy": 1, "dxx": 1, "dyy": 1, "dxy": 1, "div": 1, "grad": 1}
FUNCTIONS = {
    **dict.fromkeys(("sin", "cos", "exp", "log", "sqrt", "abs", "tanh", "step"), 1),
    "min": 2,
    "max": 2,
    "where": 3,
}
ARITIES = {**DERIVATIVES, **FUNCTIONS, "noise": 1}
BUILTIN = {*COORDINATES, *SYSTEM_NUMBERS, "pi", IMAGE}
WORDS = {"edges", "wall", "show", "scheme", "dt", "in"}
# Reserved words of C++ and WGSL; names that generated kernels use, or with which names are extended: u_left.
_TAKEN = """
    alignas alignof and asm auto bitand bitor bool catch char class compl concept const consteval constexpr constinit
    decltype default delete do double enum explicit export extern float friend goto inline int long mutable namespace
    new noexcept not nullptr operator or private protected public register requires restrict short signed sizeof static
    struct switch template this throw typedef typeid typename union unsigned using virtual void volatile xor
    INFINITY NAN NULL EOF assert signbit isnan isinf isfinite errno
    alias array atomic bool case const continuing diagnostic discard enable f16 f32 fn i32 let loop mat2x2 mat2x3 mat2x4
    mat3x2 mat3x3 mat3x4 mat4x2 mat4x3 mat4x4 override ptr sampler select texture u32 var vec2 vec3 vec4
    abstract active attribute become binding cast centroid coherent common compile demote desc extends external
    fallthrough filter final finally fixed function fxgroup get groupshared handle highp impl implements instanceof
    interface layout lowp macro match mediump meta mod module move mut nil noinline nointerpolation null of package
    packoffset pass patch precise precision premerge ref regardless resource self set shared smooth snorm subroutine
    super target trait type unless unorm use wgsl where with workgroup writeonly yield storage uniform
    abs ceil clamp cos exp fabs floor fma fmax fmin log max min mix pow round sin sqrt step tanh
    True False None range len float int math np cuda numba njit prange threadIdx blockIdx blockDim gridDim warpSize main
    REAL PERIODIC FIXED SHARE cell row column here first last one two share ny nx at padded load made params id source
    left right above below start out begin end keep take exact kept product zero true false
    """
TAKEN = {*keyword.kwlist, *keyword.softkwlist, *_TAKEN.split()}

TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|<=|>=|[-+*/^(),<>=:\[\]])"
)
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": math.pow}
_CURVES = {"sin": math.sin, "cos": math.cos, "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh}
_PARTS: dict[str, Callable[..., float]] = {"abs": abs, "min": min, "max": max, "step": lambda value: float(value > 0)}
CONSTANT: dict[str, Callable[..., float]] = _ARITHMETIC | _CURVES | _PARTS  # of constant operands


@dataclass(frozen=True)
class Token:
    """A number, a name, a sign or the end of a statement. column: from 1."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:40])


class Tokens:
    """The tokens of one statement, read from left to right."""

    def __init__(self, text: str, line: int, first: int, last: int) -> None:
        """Read columns `first` to `last` - 1 of a line; both count from 0."""
        self.text, self.line = text, line
        self.tokens, self.position = list(self._read(text.split("\n")[line - 1][:last], first)), 0

    def _read(self, source: str, at: int) -> Iterator[Token]:
        while at < len(source):
            found = TOKEN.match(source, at)
            if not found:
                self.fail(f"unexpected character {source[at]!r}", at + 1)
            if found.lastgroup != "space":
                yield Token(str(found.lastgroup), found[0].replace("**", "^"), self.line, at + 1)
            at = found.end()
        yield Token("end", "", self.line, len(source.rstrip()) + 1)

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def fail(self, message: str, column: int | None = None) -> NoReturn:
        """Raise EquationError at a column, or at the next token."""
        raise EquationError(message, self.text, self.line, self.token.column if column is None else column)

    def advance(self) -> Token:
        """Return the next token and move to the token after it; the end stays."""
        token = self.token
        self.position += token.kind != "end"
        return token

    def next_is(self, *signs: str) -> bool:
        """Return whether the next token is one of these signs."""
        return self.token.kind == "sign" and self.token.text in signs

    def expect(self, sign: str, why: str = "") -> Token:
        """Read a sign; raise an error at any other token."""
        if not self.next_is(sign):
            self.fail(f"expected {sign!r}{why}, not {self.token}")
        return self.advance()

    def end(self) -> None:
        """Raise an error unless all tokens have been read."""
        if self.token.kind in ("number", "name") or self.next_is("("):
            self.fail(f"expected an operator before {self.token}: a product needs *")
        if self.token.kind != "end":
            self.fail(f"expected an operator or the end, not {self.token}")

    def number(self) -> float:
        """Read a number without sign."""
        if self.token.kind != "number":
            self.fail(f"expected a number, not {self.token}")
        value = float(self.token.text)
        if value != 0 and not LEAST <= value <= MOST:
            self.fail(f"{self.token.text[:20]} is outside {LEAST:g} … {MOST:g}, the range of float32")
        self.advance()
        return value

    def signed(self) -> float:
        """Read a number with or without sign."""
        sign = self.advance().text if self.next_is("+", "-") else "+"
        return -self.number() if sign == "-" else self.number()

    def word(self, what: str, known: Iterable[str]) -> str:
        """Read one of the words, which may contain a hyphen."""
        first, parts = self.token, [self.advance().text]
        while self.next_is("-") and self.tokens[self.position + 1].kind == "name":
            parts += [self.advance().text, self.advance().text]
        word = "".join(parts)
        if word not in known:
            self.fail(
                f"{what} must be one of {', '.join(known)}, not {word[:40]!r}{nearest(word, known)}", first.column
            )
        return word


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the nearest known word, or ""."""
    found = difflib.get_close_matches(word[:MOST_NAME_CHARACTERS], list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


class Names:
    """Known names, and properties of the nodes of all expressions.

    known: names with a value. varying: names that depend on a field, which initial values cannot use. below: names that
    are defined further below. heights: the depth of each node and of each named expression. constants: the values of
    nodes and named expressions without parameters and fields.
    """

    def __init__(self) -> None:
        self.known = set(BUILTIN)
        self.varying: set[str] = set()
        self.below: set[str] = set()
        self.heights: dict[Node, int] = {}
        self.constants: dict[Node, float] = {Name("pi"): math.pi}
        self.nodes = 0


class Parser:
    """Parse one expression by precedence climbing. initial: without fields and derivatives, but with noise."""

    def __init__(self, tokens: Tokens, names: Names, initial: bool = False) -> None:
        self.tokens, self.names, self.initial = tokens, names, initial
        self.depth = 0
        self.gradients: list[int] = []  # columns of grad outside of div
        self.varying = False

    def whole(self) -> Node:
        """Return the expression; it must extend to the end of the statement."""
        node = self.expression()
        self.tokens.end()
        if self.gradients:
            self.tokens.fail("grad(u) is allowed in div(D*grad(u)) only", self.gradients[0])
        return node

    def expression(self, level: int = 1) -> Node:
        """Return operands joined by operators of `level` or a higher one."""
        node = self.signed()
        while self.tokens.next_is(*LEVELS) and LEVELS[self.tokens.token.text] >= level:
            operator = self.tokens.advance()
            right = self.expression(LEVELS[operator.text] + 1)
            node = self._made(BinaryOp(cast(BinaryOperator, operator.text), node, right), operator)
        return node

    def signed(self) -> Node:
        """Return an operand with its signs and its exponent: -u^2 is -(u^2), and a^b^c is a^(b^c)."""
        first = self.tokens.token
        if self.tokens.next_is("+", "-"):
            self.tokens.advance()
            with self._nested():
                node = self.signed()
            return self._made(Negative(node), first) if first.text == "-" else node
        node = self.primary()
        if self.tokens.next_is("^"):
            operator = self.tokens.advance()
            first = self.tokens.token
            with self._nested():
                exponent = self._exponent(self.signed(), first)
            node = self._made(BinaryOp("^", node, exponent), operator)
        return node

    def primary(self) -> Node:
        """Return a number, a name, a call or an expression in brackets."""
        first = self.tokens.token
        if first.kind == "number":
            return self._made(Number(self.tokens.number()), first)
        if self.tokens.next_is("("):
            self.tokens.advance()
            with self._nested():
                node = self.expression()
            self._close(first)
            return node
        if first.kind != "name":
            self.tokens.fail(f"expected a number, a name or '(', not {first}")
        self.tokens.advance()
        return self._call(first) if self.tokens.next_is("(") else self._name(first)

    def _name(self, token: Token) -> Node:
        name, names = token.text, self.names
        if name in ARITIES:
            self.tokens.fail(f"{name} is a function: write {name}(…)", token.column)
        if name in names.below:
            self.tokens.fail(f"{name!r} is not defined yet: a name can use only the names above it", token.column)
        if name not in names.known:
            hint = nearest(name, names.known | ARITIES.keys()) or f"; give it a value: {name[:16]} = 1 in [0, 2]"
            self.tokens.fail(f"unknown name {name[:40]!r}{hint}", token.column)
        if name == IMAGE and not self.initial:
            self.tokens.fail(f"{IMAGE} is allowed in initial values and walls only", token.column)
        if name in names.varying:
            if self.initial:
                self.tokens.fail(f"initial values and walls cannot depend on the field {name!r}", token.column)
            self.varying = True
        return self._made(Name(name), token)

    def _call(self, token: Token) -> Node:
        name, opened = token.text, self.tokens.advance()
        if name in self.names.known:
            self.tokens.fail(f"expected an operator between {name!r} and '(': a product needs *", opened.column)
        if name not in ARITIES:
            hint = nearest(name, ARITIES) or f"; the functions are {', '.join(ARITIES)}"
            self.tokens.fail(f"unknown function {name[:40]!r}{hint}", token.column)
        if name in DERIVATIVES and self.initial:
            self.tokens.fail(f"initial values and walls cannot have derivatives such as {name}", token.column)
        self.varying |= name in DERIVATIVES
        if name == "noise" and not self.initial:
            self.tokens.fail("noise(seed) is allowed in initial values and walls only", token.column)
        with self._nested():
            arguments = [self._condition() if name == "where" else self.expression()]
            while self.tokens.next_is(","):
                self.tokens.advance()
                arguments.append(self.expression())
        self._close(opened)
        if len(arguments) != ARITIES[name]:
            plural = "s" if ARITIES[name] > 1 else ""
            self.tokens.fail(f"{name} takes {ARITIES[name]} argument{plural}, not {len(arguments)}", token.column)
        self._check(name, arguments[0], token)
        return self._made(Call(name, tuple(arguments)), token)

    def _check(self, name: str, argument: Node, token: Token) -> None:
        """Raise an error for a div, grad or noise of another form than documented."""
        if name == "grad":
            self.gradients.append(token.column)
        elif name == "div":
            flux = argument.right if isinstance(argument, BinaryOp) and argument.op == "*" else argument
            if not (isinstance(flux, Call) and flux.name == "grad"):
                self.tokens.fail("div needs the form div(D*grad(u)) or div(grad(u))", token.column)
            self.gradients.pop()
        elif name == "noise":
            value = argument.value if isinstance(argument, Number) else -1.0
            if not (value.is_integer() and 0 <= value < 2**32):
                self.tokens.fail("the seed of noise is a whole number from 0 to 4294967295", token.column)

    def _condition(self) -> Node:
        left, operator = self.expression(), self.tokens.token
        if not self.tokens.next_is(*get_args(Comparison)):
            self.tokens.fail("where needs a comparison first: where(u > 0.5, then, else)")
        self.tokens.advance()
        return self._made(Compare(cast(Comparison, operator.text), left, self.expression()), operator)

    def _exponent(self, node: Node, token: Token) -> Node:
        """Return the exponent; a constant one as a number, within its bound."""
        value = self.names.constants.get(node)
        if value is None:
            return node
        if abs(value) > MOST_EXPONENT:
            self.tokens.fail(f"a constant exponent lies within -{MOST_EXPONENT} … {MOST_EXPONENT}", token.column)
        number = self._made(Number(abs(value)), token)
        return self._made(Negative(number), token) if value < 0 else number

    def _close(self, opened: Token) -> None:
        self.tokens.expect(")", f" for the '(' in column {opened.column}")

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """Bound the recursion: each level of it is one of brackets, a call, a sign or an exponent."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            self.tokens.fail(f"nested more than {MOST_DEPTH} levels deep")
        yield
        self.depth -= 1

    def _made(self, node: Node, token: Token) -> Node:
        """Return the node; count it, and store its depth."""
        names, heights = self.names, self.names.heights
        names.nodes += 1
        if names.nodes > MOST_NODES:
            self.tokens.fail(f"more than {MOST_NODES} numbers, names and operations in the text", token.column)
        if node not in heights:
            heights[node] = 1 + max((heights[each] for each in children(node)), default=0)
        if heights[node] > MOST_DEPTH:
            self.tokens.fail(f"more than {MOST_DEPTH} nested or chained operations", token.column)
        if node not in names.constants:
            value = self._constant(node)
            if value is not None:
                names.constants[node] = value
                if value != 0 and not LEAST <= abs(value) <= MOST:
                    self.tokens.fail(f"a constant is not finite, or outside {LEAST:g} … {MOST:g}", token.column)
        return node

    def _constant(self, node: Node) -> float | None:
        """Return the value of a node whose operands are constants, nan if it has none; None for another node."""
        operands = [self.names.constants.get(each) for each in children(node)]
        values = [value for value in operands if value is not None]
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Negative) and values:
            return -values[0]
        if isinstance(node, BinaryOp) and node.op == "^" and operands[1] == 0:
            return 1.0
        key = node.op if isinstance(node, BinaryOp) else node.name if isinstance(node, Call) else ""
        if key not in CONSTANT or len(values) < len(operands):
            return None
        try:
            return CONSTANT[key](*values)
        except (ArithmeticError, ValueError):
            return math.nan


def read(text: str) -> System:
    """Return the system of equations of a text. Raise EquationError, with the place, for every fault."""
    text = text.replace("\r\n", "\n")
    _check_characters(text)
    return _Reader(text).read()


def _check_characters(text: str) -> None:
    """Check length and characters: printable ASCII, in comments printable Unicode."""
    if len(text) > MOST_CHARACTERS:
        raise EquationError(f"the text must have at most {MOST_CHARACTERS} characters, not {len(text)}", text, 1, 1)
    for number, line in enumerate(text.split("\n"), 1):
        comment = line.find("#") if "#" in line else len(line)
        for column, each in enumerate(line, 1):
            if not (each == "\t" or " " <= each <= "~" or (column > comment and each.isprintable())):
                shown = f"{each!r} " if each.isprintable() else ""
                message = f"the character {shown}(U+{ord(each):04X}) is not allowed here; write alpha for α, ^2 for ²"
                raise EquationError(message, text, number, column)


class _Reader:
    """Read the statements of a text: first heads and settings, which define all names, then the expressions."""

    def __init__(self, text: str) -> None:
        self.text, self.system, self.names = text, System(text), Names()
        self.places: dict[str, Token] = {}  # of definitions, by their heads: u, u(0), u:
        self.later: list[tuple[str, str, Tokens]] = []  # kind, name and tokens of expressions

    def read(self) -> System:
        """Return the system."""
        for number, line in enumerate(self.text.split("\n"), 1):
            code, first = line.split("#")[0], 0
            for part in code.split(";"):
                if part.strip():
                    self._statement(Tokens(self.text, number, first, first + len(part)))
                first += len(part) + 1
        system, names = self.system, self.names
        if not system.fields:
            raise EquationError("the text needs an equation; write u_t = …", self.text, 1, 1)
        names.varying = set(system.fields)
        names.known |= names.varying | system.parameters.keys()
        names.below = {name for kind, name, _ in self.later if kind == "named"}
        for kind, name, tokens in sorted(self.later, key=lambda each: each[0] != "named"):
            self._expression(kind, name, tokens)
        arrays = {"edges", *system.fields, *system.named}
        for name in system.edges.keys() - arrays:
            place = self.places[f"{name}:"]
            message = f"unknown field {name[:40]!r}{nearest(name, arrays)}"
            raise EquationError(message, self.text, place.line, place.column)
        return system

    def _statement(self, tokens: Tokens) -> None:
        head = tokens.advance()
        if head.kind != "name":
            tokens.fail("a statement begins with a name: u_t = …, u(0) = …, F = 1 in [0, 2], edges: …", head.column)
        name = head.text
        if tokens.next_is(":") or name == "scheme":
            self._setting(name, head, tokens)
        elif tokens.next_is("("):
            tokens.advance()
            if tokens.advance().text != "0" or not tokens.next_is(")"):
                tokens.fail(f"an initial value begins with {name[:16]}(0) = …", head.column)
            tokens.advance()
            tokens.expect("=")
            self._define(f"{name}(0)", "initial", name, head, tokens)
        elif name.endswith("_t"):
            tokens.expect("=")
            self._define(name.removesuffix("_t"), "rate", name.removesuffix("_t"), head, tokens)
            self.system.fields.append(name.removesuffix("_t"))
            if len(self.system.fields) > MOST_FIELDS:
                tokens.fail(f"more than {MOST_FIELDS} equations", head.column)
        else:
            tokens.expect("=", f" or ':' after {name[:16]!r}")
            self._value(name, head, tokens)

    def _value(self, name: str, head: Token, tokens: Tokens) -> None:
        """Read the right side of `name =`."""
        if name in ("dx", "dt"):
            self._once(name, head, tokens)
            value = tokens.signed()
            if not LEAST_SETTING <= value <= MOST_SETTING:
                tokens.fail(f"{name} = {value:g} is outside {LEAST_SETTING:g} … {MOST_SETTING:g}", head.column)
            tokens.end()
            self.system.dx, self.system.dt = (value, self.system.dt) if name == "dx" else (self.system.dx, value)
        elif name in ("wall", "show"):
            self._once(name, head, tokens)
            self.later.append((name, name, tokens))
        elif any(token.text == "in" for token in tokens.tokens):
            self._define(name, "parameter", name, head, tokens)
            self.system.parameters[name] = self._parameter(name, tokens)
            if len(self.system.parameters) > MOST_PARAMETERS:
                tokens.fail(f"more than {MOST_PARAMETERS} parameters", head.column)
        else:
            self._define(name, "named", name, head, tokens)

    def _parameter(self, name: str, tokens: Tokens) -> Parameter:
        first = tokens.token
        value = tokens.signed()
        if tokens.advance().text != "in":
            tokens.fail(f"a parameter has the form {name} = value in [low, high]", first.column)
        tokens.expect("[")
        low = tokens.signed()
        tokens.expect(",")
        high = tokens.signed()
        tokens.expect("]")
        tokens.end()
        if not low < high:
            tokens.fail(f"the range [{low:g}, {high:g}] of {name} must be ascending", first.column)
        if not low <= value <= high:
            tokens.fail(f"{name} = {value:g} is outside its range [{low:g}, {high:g}]", first.column)
        return Parameter(value, low, high)

    def _setting(self, name: str, head: Token, tokens: Tokens) -> None:
        """Read the scheme, or the edges of one array or all."""
        separator = tokens.advance()
        if separator.text not in (":", "="):
            tokens.fail(f"expected ':' after {name[:40]!r}, not {separator}", separator.column)
        self._once(f"{name}:", head, tokens)
        if name == "scheme":
            self.system.scheme = cast(SchemeName, tokens.word("scheme", SCHEMES))
        elif name == "wall":
            self.system.closed = tokens.word("wall", ("zero-flux", "fixed")) == "zero-flux"
        else:
            word = tokens.word("edges", get_args(EdgeKind))
            value = tokens.signed() if word == "fixed" and tokens.token.kind != "end" else 0.0
            self.system.edges[name] = Edge(cast(EdgeKind, word), value)
        tokens.end()

    def _once(self, key: str, head: Token, tokens: Tokens) -> None:
        if key in self.places:
            tokens.fail(f"{key.rstrip(':')[:40]} is defined twice", head.column)
        self.places[key] = head

    def _define(self, key: str, kind: str, name: str, head: Token, tokens: Tokens) -> None:
        """Check the name, and keep an expression for later."""
        self._once(key, head, tokens)
        if not name.isalnum() or len(name) > MOST_NAME_CHARACTERS:
            limit = f"names have at most {MOST_NAME_CHARACTERS} letters and digits, and begin with a letter"
            tokens.fail(f"{limit}, unlike {name[:40]!r}", head.column)
        if name in BUILTIN | WORDS | TAKEN | ARITIES.keys():
            tokens.fail(f"the name {name!r} belongs to the language or to a compiler; choose another", head.column)
        if kind != "parameter":
            self.later.append((kind, name, tokens))
        if kind != "initial":
            self.system.lines[name] = tokens.line

    def _expression(self, kind: str, name: str, tokens: Tokens) -> None:
        system, names = self.system, self.names
        if kind == "initial" and name not in system.fields:
            column = self.places[f"{name}(0)"].column
            tokens.fail(f"{name}(0) has no equation {name}_t{nearest(name, system.fields)}", column)
        parser = Parser(tokens, names, kind in ("initial", "wall"))
        node = parser.whole()
        if kind == "named":
            names.below.discard(name)
            names.known.add(name)
            names.heights[Name(name)] = names.heights[node]
            if node in names.constants:
                names.constants[Name(name)] = names.constants[node]
            names.varying |= {name} if parser.varying else set()
            system.named[name] = node
        elif kind == "rate":
            system.rates[name] = node
        elif kind == "initial":
            system.initial[name] = node
        else:
            system.wall, system.show = (node, system.show) if kind == "wall" else (system.wall, node)
