"""The interface by which a lab displays itself in a notebook.

notebook.py shows labs; it draws figures and therefore imports every lab, so a lab cannot import it in turn. The
lab calls `display()` instead, whose implementation is registered once, in compute/__init__.py, and loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

if TYPE_CHECKING:
    from compute.lab.lab import Lab


class NotebookDisplay(Protocol):
    """Shows labs in a notebook: the functions of compute/lab/notebook.py."""

    def canvas_of(self, lab: Lab) -> Any:
        """Return the canvas in which the lab plays, the same in every cell."""

    def still(self, lab: Lab) -> bytes:
        """Return the lab's initial picture as a PNG."""

    def mimebundle(self, lab: Lab) -> dict[str, Any]:
        """Return the lab's MIME bundle for Jupyter and VS Code."""

    def show_in_cell(self, lab: Lab) -> None:
        """Show the lab as the output of the present cell of IPython."""

    def settle(self, lab: Lab) -> None:
        """Replace the lab's canvases by pictures of its present state."""

    def displayed(self, lab: Lab) -> Any:
        """Return the object that marimo displays for the lab."""


_loaders: list[Callable[[], NotebookDisplay]] = []


def show_with(load: Callable[[], NotebookDisplay]) -> None:
    """Register the display of labs: `load` returns it, and is called on each use."""
    _loaders[:] = [load]


def display() -> NotebookDisplay:
    """Return the display of labs."""
    return _loaders[0]()


class ShownInNotebook:
    """The part of a lab that displays it in a notebook."""

    canvas: Any = None  # of the notebook that shows the lab; None before

    def play(self, steps: int = 0) -> Self:
        """Run in the canvas of a notebook, `steps` a frame, 0 for as many as take some 40 ms; return the lab.

        A cell that ends with this call shows the lab. Raise SceneError, with the install command, if the extra is
        missing.
        """
        display().canvas_of(self._lab).stream.play(steps)
        return self

    def pause(self) -> Self:
        """Stop `play`. The canvas becomes a picture of the current state."""
        if self.canvas is not None:
            self.canvas.stream.pause()
            self._settle()
        return self

    @property
    def _lab(self) -> Lab:
        return cast("Lab", self)

    def _settle(self) -> None:
        """Replace the canvases by pictures of the present state."""
        if self.canvas is not None:
            display().settle(self._lab)

    def _repr_png_(self) -> bytes:
        """Return a still picture; called by notebooks that show no canvas."""
        return display().still(self._lab)

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        """Return the output of a cell: a picture of the current state, and the canvas while the lab plays."""
        return display().mimebundle(self._lab)

    def _ipython_display_(self) -> None:
        """Show the lab in a cell of Jupyter or VS Code."""
        display().show_in_cell(self._lab)

    def _display_(self) -> Any:
        """Return the output for marimo."""
        return display().displayed(self._lab)
