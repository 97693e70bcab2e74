"""Equations as LaTeX: the expected text, and that the page's converter accepts it."""

from __future__ import annotations

import pytest

from app.page.equations import mathml
from compute.labs.equations.language import read
from compute.labs.equations.mathematics import equations, latex, symbol
from compute.labs.equations.presets import presets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u - (v - 1)", r"u - \left(v - 1\right)"),
        ("(u + v)*u", r"\left(u + v\right) \, u"),
        ("u^2*v", r"u^{2} \, v"),
        ("-u^2", "-u^{2}"),
        ("(-u)^2", r"\left(-u\right)^{2}"),
        ("(u^2)^3", r"\left(u^{2}\right)^{3}"),
        ("u/(1 + v)", r"\frac{u}{1 + v}"),
        ("(u/v)^2", r"\left(\frac{u}{v}\right)^{2}"),
        ("lap(u)", r"\nabla^2 u"),
        ("lap(u + v)", r"\nabla^2 \left(u + v\right)"),
        ("2*dx(u)", r"2 \, \partial_x u"),
        ("div((1 + u)*grad(v))", r"\nabla \cdot \left(\left(1 + u\right) \, \nabla v\right)"),
        ("lap(u)*v", r"\left(\nabla^2 u\right) \, v"),
        ("lap(u) + v", r"\nabla^2 u + v"),  # only a factor would look differentiated, too
        ("u*v*u", r"u \, v \, u"),
        ("lap(u)^2", r"\left(\nabla^2 u\right)^{2}"),
        ("-u/2 - 1/v", r"-\frac{u}{2} - \frac{1}{v}"),
        ("u*2", r"u \cdot 2"),
        ("sqrt(u) + abs(v)", r"\sqrt{u} + \left|v\right|"),
        ("sin(u)", r"\sin\left(u\right)"),
        ("exp(-u)", "e^{-u}"),
        ("1e-9*u", r"1 \cdot 10^{-9} \, u"),
        ("where(u < v, 1, 2)", r"\begin{cases}1 & u < v \\ 2 & \text{otherwise}\end{cases}"),
    ],
)
def test_expressions(text, expected):
    assert latex(read(f"u_t = {text}; v_t = 1").rates["u"]) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("u", "u"),
        ("Du", "D_{u}"),
        ("V0", "V_{0}"),
        ("mu", r"\mu"),
        ("alpha2", r"\alpha_{2}"),
        ("spot", r"\mathrm{spot}"),
    ],
)
def test_symbols(name, expected):
    assert symbol(name) == expected


@pytest.mark.parametrize("name", sorted(presets()))
def test_the_page_typesets_every_preset(name):
    assert mathml(equations(read(presets()[name].text))).count("<mtr>") >= 1


def test_the_page_typesets_every_function():
    text = (
        "u_t = dxy(u) + dyy(u) + dxx(u) + dy(u) + log(u) + tanh(u) + min(u, 1) + max(u, 2) + step(u) + cos(u)"
        " + where(u >= 1, exp(u), sqrt(u)) + where(u <= 1, 2, 3)"
    )
    assert "<mfrac>" not in mathml(equations(read(text)))
