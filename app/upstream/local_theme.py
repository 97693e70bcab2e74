"""Keep the theme that a browser applies to its plots local to that browser."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="local_theme",
    package="panel-material-ui",
    versions="0.16",
    kind="fault",
    purpose="each lab sent some hundred messages about colours, and each client overwrote the server's",
    report=(
        "The theme sets properties of axes, grids, legends and titles by setv without sync: false: the browser sends "
        "each of them to the server, which stores the colours of one client for all."
    ),
    replaces=(Code(f"{BOKEHJS}:HasProps.setv", ("cdec1fa8482a",)),),
)
