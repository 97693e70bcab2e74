"""`python -m app.upstream > docs/upstream.md` writes the table of fixes, with texts for reports to the libraries."""

from __future__ import annotations

import sys

from app.upstream.fix import Fix
from app.upstream.fixes import FIXES

HEAD = """# Fixes of the libraries

Fieldlab runs on unpatched Panel, Bokeh and panel-material-ui. These fixes repair faults that a user sees, or gain at
least 15 % of a figure of `fieldlab bench load` or of the first visit. Each is one module of `app/upstream/`, with a
probe: if the installed library no longer has the code that the fix was written for, the fix is off and the log says
so. `fieldlab info` lists their states. The environment variable `FIELDLAB_FIXES` switches them: `none`, or names with a
minus, such as `-layout_once,-press`.

With `FIELDLAB_FIXES=none` the browser tests of `make test` pass, except those of the fixes themselves
(`tests/browser/test_upstream.py`), which are skipped. A user then notices two things apart from the times below:

* without `press`, a stroke or a drag does nothing unless the pointer moves 5 px in its first 300 ms;
* without `local_theme`, the log says that the server `discarded a change that is not on the allow-list:
  LinearAxis.axis_line_color` and the like: the browser sends the colours of its theme for each plot, some hundred small
  messages a lab. Discarding them changes no picture, neither on this page nor on others.

This page is written by `python -m app.upstream > docs/upstream.md`.

"""


def row(fix: Fix) -> str:
    """Return the table row of one fix."""
    until = f", repaired in {fix.repaired}" if fix.repaired else ""
    return f"| `{fix.name}` | {fix.package} {fix.versions}{until} | {fix.kind} | {fix.purpose} |\n"


def page() -> str:
    """Return the page in Markdown."""
    table = "| fix | library | kind | fault or gain |\n| --- | --- | --- | --- |\n" + "".join(map(row, FIXES))
    reports = "".join(f"\n### {fix.name} ({fix.package})\n\n{fix.report}\n" for fix in FIXES)
    return f"{HEAD}{table}\n## Reports\n{reports}"


if __name__ == "__main__":
    sys.stdout.write(page())
