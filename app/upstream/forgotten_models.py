"""Let the browser free models that were removed from a page, also while frames arrive."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="forgotten_models",
    package="bokehjs",
    versions="3.9",
    kind="fault",
    purpose="models of closed tabs were kept as long as a lab ran",
    report=(
        "Document._schedule_recompute_all_models restarts its timer of 30 s at each patch: a document that is patched "
        "more often never frees its detached models. Do not restart a timer that is running."
    ),
    replaces=(Code(f"{BOKEHJS}:Document._schedule_recompute_all_models", ("f712dedec432",)),),
    repaired="3.10",
)
