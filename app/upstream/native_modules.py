"""Load Panel's components by the browser's own module loader."""

from __future__ import annotations

from app.upstream.fix import PANEL_ESM, Code, Fix

FIX = Fix(
    name="native_modules",
    package="panel",
    versions="1.9",
    kind="gain",
    purpose=(
        "a first visit shows its picture after 2.1 s instead of 5.3 s: "
        "1.4 MB of modules are not parsed and compiled again"
    ),
    report=(
        "ReactiveESM loads each bundle by es-module-shims, which parses its text and passes a blob to the browser: the "
        "compiled code is not cached. Use import() first, and the shim where that fails."
    ),
    replaces=(Code(f"{PANEL_ESM}/reactive_esm.js:ReactiveESM.init_module", ("0fd26df6d5f5",)),),
    repaired="1.10",
)
