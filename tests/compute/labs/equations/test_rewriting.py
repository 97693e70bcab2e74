"""Texts in which one setting is replaced."""

from __future__ import annotations

from itertools import product

import pytest

from compute.labs.equations.language import MOST_CHARACTERS, read
from compute.labs.equations.presets import presets
from compute.labs.equations.programs import alike
from compute.labs.equations.rewriting import with_edges, with_scheme, with_time_step, with_wall
from compute.labs.equations.tree import Edge, EquationError

PLAIN = "u_t = lap(u)  # dt = 3; scheme: rk3\n"
EDGES = [Edge(), Edge("zero-flux"), Edge("fixed"), Edge("fixed", -0.25)]


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (PLAIN, PLAIN + "wall = 0\nwall: zero-flux\n"),
        ("u_t = u; wall: fixed  # no wall yet", "u_t = u; wall: zero-flux  # no wall yet\nwall = 0\n"),
        ("u_t = u; wall = x - 3\n", "u_t = u; wall = x - 3\n"),
    ],
)
def test_a_wall_without_flux_is_added_to_a_text_without_one(text, changed):
    assert with_wall(text) == changed
    assert read(changed).wall is not None
    assert read(changed).closed == (text != changed)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (PLAIN, PLAIN + "scheme: rk3\n"),
        ("u_t = lap(u)", "u_t = lap(u)\nscheme: rk3"),
        ("scheme = euler # slow\nu_t = u", "scheme: rk3 # slow\nu_t = u"),
        ("  u_t = u ;  scheme :symplectic ; dt = 1", "  u_t = u ;  scheme: rk3 ; dt = 1"),
    ],
)
def test_a_scheme_is_replaced_in_its_place_or_appended(text, changed):
    assert with_scheme(text, "rk3") == changed
    assert read(changed).scheme == "rk3"


@pytest.mark.parametrize(
    ("text", "dt", "changed"),
    [
        ("dt = 1\nu_t = u\n", 0.125, "dt = 0.125\nu_t = u\n"),
        ("dt = 1\nu_t = u\n", None, "u_t = u\n"),
        ("dt = 1 # as in the paper\nu_t = u", None, "# as in the paper\nu_t = u"),
        ("u_t = u; dt = 1; v_t = v  # two", None, "u_t = u; v_t = v  # two"),
        ("u_t = u; dt=1", None, "u_t = u"),
        ("u_t = u", None, "u_t = u"),
        (PLAIN, 1e-5, PLAIN + "dt = 1e-05\n"),
    ],
)
def test_a_time_step_is_replaced_or_removed(text, dt, changed):
    assert with_time_step(text, dt) == changed
    assert read(changed).dt == dt


@pytest.mark.parametrize("dt", [0.0, -1.0, 1e7, float("inf"), float("nan")])
def test_an_invalid_time_step_is_refused(dt):
    with pytest.raises(EquationError, match=r"dt = .* is outside 1e-06 … 1e\+06|expected a number"):
        with_time_step(PLAIN, dt)


STATEMENTS = [
    "",
    "edges: zero-flux",
    "u: fixed 1",
    "v: zero-flux",
    "v: fixed 1\nu: zero-flux",
    "edges: fixed 2\nv: periodic",
]


@pytest.mark.parametrize("statements", STATEMENTS)
def test_the_edges_of_one_field_are_those_chosen_and_all_others_stay(statements):
    text = f"u_t = lap(u)  # first\nv_t = lap(v)\n{statements}\nq = dx(u)\n"
    old = read(text)
    for name, edge in product("uv", EDGES):
        changed = with_edges(text, edge, name)
        new = read(changed)
        assert new.edge(name) == edge
        other = "v" if name == "u" else "u"
        assert new.edge(other) == old.edge(other)
        assert new.edge("q") == (edge if edge == old.edge(other) else old.edge("q"))
        assert "# first" in changed
        assert alike(text, changed)


@pytest.mark.parametrize("statements", STATEMENTS)
def test_equal_edges_of_all_fields_are_one_statement(statements):
    text = f"u_t = lap(u)\nv_t = lap(v)\n{statements}"
    for edge in EDGES:
        changed = with_edges(text, edge)
        assert {read(changed).edge(name) for name in "uvq"} == {edge}
        assert changed.count(":") == 1
        assert with_edges(changed, edge) == changed


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_changed_and_restored(name):
    text = presets()[name].text
    system = read(text)
    changed = with_edges(with_time_step(with_scheme(text, "rk3"), 0.5), Edge("fixed", 2.0))
    assert alike(text, changed)
    new = read(changed)
    assert (new.scheme, new.dt, new.edge(system.fields[0])) == ("rk3", 0.5, Edge("fixed", 2.0))
    back = with_time_step(with_scheme(changed, system.scheme), system.dt)
    for field in system.fields:
        back = with_edges(back, system.edge(field), field)
    restored = read(back)
    assert (restored.scheme, restored.dt) == (system.scheme, system.dt)
    assert {field: restored.edge(field) for field in system.fields} == {
        field: system.edge(field) for field in system.fields
    }


def test_a_text_that_becomes_too_long_is_refused():
    text = PLAIN + "#" * (MOST_CHARACTERS - len(PLAIN))
    with pytest.raises(EquationError, match="at most 4000"):
        with_scheme(text, "rk3")


def test_only_edges_scheme_and_time_step_leave_texts_alike():
    text = presets()["wave"].text
    assert alike(text, text)
    assert not alike("", text)
    for old, new in (
        ("c = 1 in", "c = 1.5 in"),
        ("25*(x", "24*(x"),
        ("wall =", "show ="),
        ("d*v", "d*v + 0"),
        ("v\n", "v; dx = 2\n"),
    ):
        assert old in text
        assert not alike(text, text.replace(old, new, 1)), new
