"""Scenes of an open lab: making one from its state, and restoring the lab from one. All input is untrusted.

`scene_of_lab` makes a scene. `asked_for` and `scene_in` read one from the page's URL or the text of a file, and a
Restorer applies it to the lab: values, style and, for labs that must compute up to it, the state. A state that several
pages request is computed once (STATES), in a child process, with a deadline set by the server. Short work has a
separate lane and never waits behind long work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from math import prod
from typing import Any

from bokeh.document import Document
from msgspec import structs

from app.tab.open_lab import OpenLab
from compute.cli.settings import MIB, current
from compute.export import tasks
from compute.export.film import SCHEMA as FILM
from compute.export.film import film_of
from compute.export.jobs import BRIEF, STATE, Job
from compute.export.link import NAME, unpacked
from compute.export.render_pool import on_gpu
from compute.export.scene import Scene, SceneError, Style, read, scene_of, values_along
from compute.export.shared_jobs import NoRoom, SharedJob, SharedJobs
from compute.lab.frames import View
from compute.lab.history import Entries, Entry
from compute.lab.lab import PICTURE_BYTES, Lab
from compute.lab.loaded import kept_bytes
from compute.lab.two_runs import SECOND

# Estimate of the time for a state on a fast machine; a slow machine or a slow backend takes up to twenty times as long.
CELLS_PER_SECOND = 2e9  # grid cells times steps
STEP_SECONDS, ENTRY_SECONDS = 1e-5, 0.02  # per step on the smallest grid, and per history entry
SHORT = 0.5  # maximum of work in the lane BRIEF, in s; its deadline suffices for a slow machine
CELL_BYTES = 8  # upper bound for a state
RESTORING = "restoring"  # identifies the notices
SIZE = ("ny", "nx")  # parameters that determine the shape of a state
KEPT = 2**26  # bytes of cached states without waiting pages


def scene_of_lab(
    lab: type[Lab], values: Mapping[str, Any], origin: Mapping[str, Any], part: str, style: Style, view: View | None
) -> Scene:
    """Return the scene that reproduces the picture `part` of a lab with these values.

    origin: the lab's snapshot, or HistoryRules.origin.
    """
    history = lab.HISTORY.of(lab, values, origin)
    screen = {*lab.PICTURE_SIZE, *lab.LOCAL}
    own = {name: value for name, value in history.values.items() if name not in screen}
    return Scene(
        lab.LAB, own, steps=history.steps, part=part, look=style,
        history=history.entries, missing=history.missing, view=view,
    )  # fmt: skip


def asked_for(document: Document) -> Scene | None:
    """Return the scene in the page's URL, None without one; raise SceneError for a damaged link."""
    request = document.session_context.request if document.session_context else None
    values = request.arguments.get(NAME, []) if request else []
    if not values:
        return None
    try:
        return unpacked(values[0].decode("ascii"))
    except UnicodeDecodeError as error:
        raise SceneError("this link is damaged") from error


def scene_in(text: str | None) -> Scene:
    """Return the scene in the text of a file, for a film its first; raise SceneError without one."""
    if text is None:
        raise SceneError("it does not say how it was made; pictures (PNG) and JSON of Fieldlab do")
    document = read(text)
    return film_of(document).at(0) if document.get("schema") == FILM else scene_of(document)


def sides_of(scene: Scene) -> list[int]:
    """Return the rows and columns of the state of `scene`, with defaults for missing values."""
    usual = {side: scene.kind.param[side].default for side in SIZE if side in scene.kind.param}
    return [side for name, default in usual.items() if isinstance(side := scene.values.get(name, default), int)]


def guessed_seconds(scene: Scene) -> float:
    """Return the estimated time in s to compute the state of `scene` on a fast machine."""
    if scene.kind.ENDS:
        return 0.0
    of_step = max(STEP_SECONDS, prod(sides_of(scene)) / CELLS_PER_SECOND)
    runs = 2 if scene.values.get(SECOND) else 1
    return runs * scene.steps * of_step + len(scene.history) * ENTRY_SECONDS


def beginning(scene: Scene) -> Scene:
    """Return `scene`, or, if its state takes more than SHORT seconds, the initial state with its last values."""
    if guessed_seconds(scene) <= SHORT:
        return scene
    *_, last = (dict(scene.values), *values_along(scene.values, scene.history))
    return structs.replace(scene, values=last, steps=0, history=(), missing="")


def require_time(scene: Scene) -> None:
    """Raise SceneError if computing the state would exceed this server's time limit even on a fast machine."""
    most, guess = current().state_seconds, guessed_seconds(scene)
    if guess > most:
        work = f"{scene.steps:,} steps and {len(scene.history):,} entries of its history"
        allowed = f"{most:,} s are allowed on this server (its setting state_seconds)"
        raise SceneError(f"{work} would take about {guess:,.0f} s, and {allowed}")


def snapshot_bytes(state: object) -> int:
    """Return the size in bytes of a cached state: values and snapshot, with all pictures and histories."""
    return kept_bytes([state])


STATES = SharedJobs(snapshot_bytes, KEPT, most=lambda: current().memory * MIB)  # states for the Restorers of all pages


def state_of(scene: Scene, asking: Restorer) -> SharedJob:
    """Return the job that computes the state of `scene`, shared by requesters; raise SceneError without free memory.

    The processes that compute states are reused: of sixteen different links opened at the same time on two busy cores,
    the last was shown after 17 s, compared with 53 s if each starts a process; sixteen times the same link took 14 s.
    """
    key = sha256(json.dumps(scene.plain(), sort_keys=True).encode()).hexdigest()
    expected = 0 if scene.kind.ENDS else CELL_BYTES * prod(sides_of(scene)) + PICTURE_BYTES
    try:
        return STATES.ask(key, partial(_begun, scene, id(asking)), asking, expected)
    except NoRoom as error:
        raise SceneError(f"its state cannot be computed now: {error}") from error


def _begun(scene: Scene, client: int) -> Job:
    """Start the job that computes the state. client: a number, as the first requester may leave early."""
    keeps = not on_gpu(scene.kind, [scene.values.get("backend")])  # a reused process would keep the GPU's memory
    lane = BRIEF if guessed_seconds(scene) <= SHORT else STATE
    task = tasks.check if scene.kind.ENDS else tasks.pose
    deadline = min(lane.deadline, float(current().state_seconds))
    job = Job(partial(task, scene), lane, client, deadline, keeps=keeps)
    job.start()
    return job


def _fitting_history(
    kind: type[Lab], values: Mapping[str, Any], history: Entries, absent: Sequence[str]
) -> Iterator[Entry]:
    """Yield the entries of a history with each `absent` backend replaced by the default backend and kernel.

    Settings for available backends are kept, also after an absent one; GPU numbers are removed.
    """
    usual: dict[str, Any] = {"backend": kind.param["backend"].default, "variant": ""}
    usual = {name: value for name, value in usual.items() if name in kind.param}

    def here(requested: dict[str, Any]) -> dict[str, Any]:
        """Return the backend and kernel to use for the requested ones."""
        return usual if requested["backend"] in absent else requested

    requested = {name: values.get(name, value) for name, value in usual.items()}
    held = here(requested)
    for entry in history:
        if "set" not in entry:
            yield entry
            continue
        requested = {name: entry["set"].get(name, value) for name, value in requested.items()}
        rest = {name: value for name, value in entry["set"].items() if name not in (*usual, "device_index")}
        other = {name: value for name, value in here(requested).items() if value != held[name]}
        held = here(requested)
        if rest or other:
            yield {**entry, "set": rest | other}


class Restorer:
    """Restores the lab of one tab from a scene. tell(kind, text, about): see Notices."""

    def __init__(self, tab: OpenLab, tell: Callable[..., None]) -> None:
        self._tab, self._tell = tab, tell
        self._scene: Scene | None = None
        self._state: SharedJob | None = None
        self._waited, self._posed, self._plays, self._pace, self._display = 0, False, False, "", ""
        self._target_values: dict[str, Any] = {}  # requested values

    @property
    def busy(self) -> bool:
        """Whether a scene is being restored."""
        return self._state is not None

    def restore(self, scene: Scene, plays: bool = False, pace: str = "", display: str = "") -> None:
        """Restore `scene`; raise SceneError if this machine cannot. plays: run the lab afterwards.

        pace, display: the lab's speed and its display settings as text, "" to keep the present ones.

        A child process checks the values and computes the state, so that the page's event loop is not blocked. If it
        refuses, the Restorer shows the reason and the lab is unchanged.
        """
        scene, wanted = self.fitting(scene)
        require_time(scene)
        self.close()
        self._state = state_of(scene, self)
        self._scene, self._plays, self._pace, self._display = scene, plays, pace, display
        if wanted:
            usual = scene.kind.param["backend"].default
            self._tell("info", f"Made with {wanted}, which this machine lacks: shown with {usual}.")
        if scene.missing:
            self._tell("warning", f"The file does not include everything: {scene.missing}.")
        self._tab.address.forget()

    def tick(self) -> None:
        """Apply the state when it is computed; called a few times a second."""
        if self._state is None or self._scene is None:
            return
        job, session = self._state.job, self._tab.session
        if not job.over:
            self._waited += 1
            if self._waited % 40 == 20 and self._scene.steps:
                words = f"Computing {self._scene.steps:,} steps: {100 * job.part:.0f} % done."
                self._tell("info", words, RESTORING)
            return
        if job.state != "done":
            self.close()
            self._tell("error", f"The state cannot be shown: {job.text}", RESTORING)
            self._tab.expect_no_scene()
            return
        if not self._posed:
            self._plays |= self._tab.awaits_scene and session.playing  # Run was pressed during the computation
            session.play(self._scene.kind.ENDS and self._tab.parts.plays)
            self._show(self._scene, job.result[0])
            self._posed, self._tab.awaits_scene = True, False
        if session.phase in ("moving", "starting"):
            return  # to the engine for these values
        fits = self._has_size(session.values)
        if fits and not self._has_size(session.confirmed):
            return  # the engine may still refuse it
        self.close()
        if fits:
            self._continue(self._scene, job.result[1])
        else:
            self._tell("error", "The state cannot be shown: the lab did not accept its size.", RESTORING)

    def _has_size(self, values: Mapping[str, Any]) -> bool:
        """Return whether the state fits a lab with these values."""
        return all(values[name] == self._target_values[name] for name in SIZE if name in self._target_values)

    def _continue(self, scene: Scene, snapshot: Mapping[str, Any] | None) -> None:
        """Restore the snapshot of `scene` in the lab, which has its values already."""
        session = self._tab.session
        if snapshot is not None:
            session.restore(snapshot)
            self._tell("success", f"Restored, at step {scene.steps:,}.", RESTORING)
            if self._plays:
                session.play(True)
        session.later(lambda: self._tab.lab_view.show_part(scene.view))

    def close(self) -> None:
        """Cancel restoring."""
        if self._state is not None:
            STATES.leave(self._state, self)
            self._state, self._waited, self._posed = None, 0, False

    def names(self) -> list[str]:
        """Return the parameters that belong to the state, without those for the size of the screen."""
        lab = self._tab.session.lab
        others = {*lab.PICTURE_SIZE, "device_index", *lab.LOCAL, "name"}
        return [name for name in lab.param if name not in others]

    def fitting(self, scene: Scene) -> tuple[Scene, str]:
        """Return the scene with available backends, and the names of its unavailable backends as text."""
        kept = {name: value for name, value in scene.values.items() if name in self.names()}
        usual = scene.kind.param["backend"].default
        absent = [one.name for one in scene.kind.backends() if one.missing is not None]
        history = tuple(_fitting_history(scene.kind, kept, scene.history, absent))
        made = kept.get("backend", usual)
        requested = [made, *(entry["set"].get("backend") for entry in scene.history if "set" in entry)]
        if made in absent:
            kept |= {"backend": usual} | ({"variant": ""} if "variant" in scene.kind.param else {})
        fitted = structs.replace(scene, values=kept, history=history)
        return fitted, " and ".join(name for name in absent if name in requested)

    def _show(self, scene: Scene, values: Mapping[str, Any]) -> None:
        """Set all values and the style."""
        session, names = self._tab.session, self.names()
        self._target_values = wanted = {name: values.get(name, session.lab.param[name].default) for name in names}
        session.change(**wanted)
        session.value_changes.publish(wanted)
        if scene.look is not None:
            self._tab.controls.apply_style(scene.look, scene.part)
        if self._pace:
            self._apply(self._tab.controls.apply_pace, self._pace, "The speed is")
        if self._display:
            self._apply(self._tab.controls.apply_display, self._display, "The display settings are")

    def _apply(self, apply: Callable[[str], object], text: str, what: str) -> None:
        """Apply a text of an address, or tell why it is invalid. what: subject and verb of that message."""
        try:
            apply(text)
        except ValueError as error:
            self._tell("warning", f"{what} left as before: {error}.")
