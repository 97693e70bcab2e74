"""What axe-core finds wrong with a page. It lies in the package axe-playwright-python: nothing is fetched."""

from __future__ import annotations

import time
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
# What comes from within a library and cannot be mended here: rule, and what the element's HTML has.
FOREIGN = (
    # panel-material-ui's mark of a described slider or switch: a tooltip's label on a span that has no role
    ("aria-prohibited-attr", 'sx="[object Object]"'),
)


PATIENCE = 60.0  # s that a busy machine may take to fade colours and dialogs in


def faults(page: Page, *rules: str) -> list[str]:
    """What axe-core goes on finding serious or critical on a page, in words; rules: only these."""
    end = time.monotonic() + PATIENCE
    while (found := faults_now(page, *rules)) and time.monotonic() < end:
        page.wait_for_timeout(1000)
    return found


def faults_now(page: Page, *rules: str) -> list[str]:
    """What it finds at this moment."""
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
