"""Components link to the style sheets of this server, never to a CDN."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="local_styles",
    package="panel",
    versions="1.9, 1.10",
    kind="fault",
    purpose="a part that was added to an open page linked to a CDN: without internet it had no theme",
    report=(
        "Design._get_modifiers builds CDN addresses of theme style sheets if state.curdoc is not set at that moment, "
        "and patch_stylesheet does not replace those of a model that has no document yet: a component that is added "
        "to a served page loads its CSS from cdn.holoviz.org although resources are served locally."
    ),
    replaces=(Code(f"{BOKEHJS}:ImportedStyleSheet.underlying", ("bf0180009a73",)),),
)
