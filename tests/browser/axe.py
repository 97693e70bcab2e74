"""Accessibility faults of a page according to axe-core, which the package axe-playwright-python includes."""

from __future__ import annotations

import time
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
# Faults inside libraries that cannot be fixed here: (rule, substring of the element's HTML).
FOREIGN = (
    # panel-material-ui labels a described slider or switch by its tooltip, on a span without a role
    ("aria-prohibited-attr", 'sx="[object Object]"'),
)


PATIENCE = 60.0  # s for colour and dialog transitions on a busy machine


def faults(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical faults of `page` that persist for PATIENCE; rules: check only these."""
    end = time.monotonic() + PATIENCE
    while (found := faults_now(page, *rules)) and time.monotonic() < end:
        page.wait_for_timeout(1000)  # ms between two attempts
    return found


def faults_now(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical faults of `page` at this moment, one text each."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{fault['id']}: {node['target']} {node['html'][:200]} {node.get('failureSummary', '')}"
        for fault in found
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
        if not any(fault["id"] == rule and part in node["html"] for rule, part in FOREIGN)
    ]
