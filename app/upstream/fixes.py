"""The fixes of Panel, Bokeh, panel-material-ui and param: what each repairs or gains, and whether it is switched on.

The page works without any of them, slower and with the faults that they repair. The setting FIELDLAB_FIXES chooses:

* `all` (default), `none`, or names separated by commas;
* names with a minus, `-layout_once,-type_size`: all but these.

What protects the server from strangers is no fix and cannot be switched off: app/server/ and the limits of messages.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

SETTING = "FIELDLAB_FIXES"
ALL, NONE = "all", "none"


@dataclass(frozen=True)
class Fix:
    """A change of a library's behaviour.

    package: distribution whose code it replaces; kind: "fault" for a fault that a user sees, "gain" for time, memory
    or bytes; purpose: the fault or the gain, with its measurement; script: whether its code is in the browser, in
    app/static/bokeh_patches.js.
    """

    name: str
    package: str
    kind: Literal["fault", "gain"]
    purpose: str
    script: bool = False


FIXES = (
    Fix("housekeeping", "panel", "gain", "the first visitor's page is freed when it is closed"),
    Fix("whole_messages", "bokeh", "gain", "one system call for a message instead of seven"),
    Fix("dead_connections", "bokeh", "fault", "a laptop that changed its network blocked its page for 15 minutes"),
    Fix("few_references", "bokeh", "gain", "a message does not begin with a table of all models of the page"),
    Fix("one_message", "bokeh", "gain", "one message for all changes of a callback"),
    Fix("pull_beside", "bokeh", "fault", "a page that reconnects gets its arrays; written in 80 ms beside the loop"),
    Fix("import_maps", "panel-material-ui", "gain", "2 kB less for each component"),
    Fix("shared_stylesheets", "panel", "gain", "4 kB less for each piece of HTML"),
    Fix("fonts", "panel-material-ui", "gain", "a page loads 2 of 18 font files"),
    Fix("plain_scripts", "panel", "gain", "own scripts are not translated from TypeScript at each visit"),
    Fix("no_webgl", "bokeh", "gain", "194 kB less to load"),
    Fix("pages_beside", "panel", "gain", "a page's HTML is written in 40 ms beside the loop"),
    Fix("html_text", "panel", "gain", "a text of the status bar takes 36 us instead of 620 us"),
    Fix("event_pause", "panel", "gain", "a slider is heard after 5 ms instead of 50 ms"),
    Fix("event_lock", "panel", "fault", "handlers of events changed documents without their lock, and raised"),
    Fix("current_documents", "bokeh", "fault", "one thread's current document was taken for another's"),
    Fix("lean_bookkeeping", "bokeh, panel, param", "gain", "3 MB less memory for each page"),
    Fix("ready_page", "bokeh, panel", "gain", "the first visitor does not wait 0.5 s for the page to be built"),
    Fix("press", "bokehjs", "fault", "a drag that began after a pause of 300 ms did nothing", script=True),
    Fix(
        "pinch",
        "bokehjs",
        "fault",
        "a pinch zoomed by steps, not about the fingers",
        script=True,
    ),
    Fix("css_values", "bokehjs", "gain", "a tenth of the time in which a page opens", script=True),
    Fix(
        "inline_stylesheets",
        "panel, bokehjs",
        "gain",
        "256 links, each with a further layout of its component",
        script=True,
    ),
    Fix("lazy_definitions", "bokehjs", "gain", "30 of 160 kinds of components are defined", script=True),
    Fix("forgotten_models", "bokehjs", "fault", "models of closed tabs were kept as long as a lab ran", script=True),
    Fix("fresh_receiver", "bokehjs", "fault", "a connection that broke within a message stopped the page", script=True),
    Fix("reconnecting", "bokehjs", "fault", "a page gave up after five tries to reconnect", script=True),
    Fix("local_theme", "panel-material-ui", "gain", "some hundred messages about colours for each lab", script=True),
    Fix("react_state", "panel", "fault", "a value set while a component was drawn was lost or taken back", script=True),
    Fix("layout_once", "bokehjs, panel", "gain", "one layout instead of 70 while a page opens", script=True),
    Fix("plot_room", "bokehjs", "gain", "a plot whose labels grow lays out its row instead of the page", script=True),
    Fix("type_size", "bokehjs", "gain", "styles are computed once a drawing instead of once a label", script=True),
    Fix("native_modules", "panel", "gain", "1.4 MB of modules are not read and compiled again", script=True),
)


def chosen(setting: str | None = None) -> frozenset[str]:
    """Return the names of the fixes that `setting` switches on; None reads FIELDLAB_FIXES. ValueError for others."""
    words = [word.strip() for word in (os.environ.get(SETTING, ALL) if setting is None else setting).split(",")]
    known = {fix.name for fix in FIXES}
    if words in ([ALL], [NONE]):
        return frozenset(known if words == [ALL] else ())
    names = {word.removeprefix("-") for word in words}
    if unknown := sorted(names - known):
        raise ValueError(f"{SETTING} must be {ALL}, {NONE} or names of fixes, not {unknown[0][:60]!r}")
    without = {word.startswith("-") for word in words}
    if len(without) > 1:
        raise ValueError(f"{SETTING} must name the fixes to switch on, or with a minus those to switch off, not both")
    return frozenset(known - names if without == {True} else names)
