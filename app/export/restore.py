"""From a scene back to the page: values, look and, where a lab must first go that far, its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compute.backends import backend
from compute.export.errand import Errand
from compute.export.runner import Runner
from compute.export.scene import Scene, SceneError

if TYPE_CHECKING:
    from app.lab_view import LabView

MOST_WORK = 10**12  # steps times cells that a link or a file may ask for: some minutes of one processor


class Restorer:
    """Brings the lab of one view into the state of a scene. tell(kind, text) says what came of it."""

    def __init__(self, view: LabView, tell: Callable[[str, str], None]) -> None:
        self._view, self._tell = view, tell
        self._scene: Scene | None = None
        self._runner: Runner | None = None
        self._waited = 0

    def restore(self, scene: Scene) -> None:
        """Show `scene`; SceneError, and nothing has changed, if it cannot be shown here."""
        scene, wanted = self._fitting(scene)
        work = scene.steps * scene.values.get("ny", 512) * scene.values.get("nx", 512)
        if work > MOST_WORK:
            raise SceneError(
                f"it would take {work:.1e} steps times cells to get there, and {MOST_WORK:.0e} are allowed"
            )
        scene.check()
        self.close()
        view = self._view
        if wanted:
            self._tell("info", f"Made with {wanted}, which is not here: shown with {scene.values['backend']}.")
        if scene.missing:
            self._tell("warning", f"Not all of it is in the file: {scene.missing}.")
        self._set({name: view.session.lab.param[name].default for name in self._names()} | dict(scene.values))
        view.controls.wear(scene.look, scene.part)
        if scene.kind.ENDS:
            view.session.play(view.parts.plays)
            return
        view.session.play(False)
        self._scene = scene
        self._runner = Runner(Errand("compute.export.tasks:pose", {"scene": scene}))
        self._runner.start()

    def tick(self) -> None:
        """A few times a second: a state that is being computed may be there."""
        runner, session = self._runner, self._view.session
        if runner is None or self._scene is None:
            return
        if not runner.over:
            self._waited += 1
            if self._waited % 20 == 8:
                self._tell("info", f"Computing {self._scene.steps} steps again: {100 * runner.part:.0f} % are done.")
            return
        if session.state in ("moving", "starting"):
            return  # to the engine that the values ask for
        scene, self._runner, self._waited = self._scene, None, 0
        if runner.state != "done":
            self._tell("error", f"The state could not be computed again: {runner.text}")
            return
        values, snapshot = runner.result
        self._set({name: value for name, value in values.items() if name in self._names()})
        session.act("restore", snapshot=snapshot)
        aim = getattr(self._view.stage, "aim", None)  # of stages that can show a part
        if aim is not None:
            session.later(lambda: aim(scene.view))
        self._tell("success", f"Restored, at step {scene.steps}.")

    def close(self) -> None:
        """Forget what is under way."""
        if self._runner is not None:
            self._runner.cancel()
            self._runner = None

    def _names(self) -> list[str]:
        """Parameters that belong to the state: not the size of the screen."""
        lab = self._view.session.lab
        screen = {*lab.pictured({}, (1, 1)), "device_index", "name"}
        return [name for name in lab.param if name not in screen]

    def _fitting(self, scene: Scene) -> tuple[Scene, str]:
        """The scene with a backend that this machine has; what it was made with, if that is another one."""
        kept = {name: value for name, value in scene.values.items() if name in self._names()}
        made = kept.get("backend", scene.kind.param["backend"].default)
        known = {one.name for one in scene.kind.backends()}
        if made not in known or backend(made).missing is None:
            return replace(scene, values=kept), ""
        default = scene.kind.param["backend"].default
        plain = {"variant": ""} if "variant" in scene.kind.param else {}
        return replace(scene, values=kept | {"backend": default} | plain), made

    def _set(self, values: dict[str, Any]) -> None:
        session = self._view.session
        session.change(**values)
        session.on_values(values)
