"""What a notebook asks of a lab, and who answers.

A lab is shown by compute/notebook.py, which draws figures and therefore knows every lab. A lab cannot know it in turn:
it asks `display()`, whose answer the package names once, in compute/__init__.py. It is loaded when a notebook asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from compute.lab import Lab


class NotebookDisplay(Protocol):
    """Shows labs in a notebook: what compute/notebook.py has of functions."""

    def canvas_of(self, lab: Lab) -> Any:
        """Return the canvas in which the lab plays, the same in every cell."""

    def still(self, lab: Lab) -> bytes:
        """Return what the lab shows first, as a PNG."""

    def mimebundle(self, lab: Lab) -> dict[str, Any]:
        """Return what Jupyter and VS Code show for the lab."""

    def show_in_cell(self, lab: Lab) -> None:
        """Show the lab as the output of the present cell of IPython."""

    def settle(self, lab: Lab) -> None:
        """Replace the lab's canvases by pictures of its present state."""

    def displayed(self, lab: Lab) -> Any:
        """Return what marimo shows for the lab."""


_loaders: list[Callable[[], NotebookDisplay]] = []


def show_with(load: Callable[[], NotebookDisplay]) -> None:
    """Let labs be shown by what `load` gives, which is called whenever a notebook asks."""
    _loaders[:] = [load]


def display() -> NotebookDisplay:
    """Return what shows labs."""
    return _loaders[0]()
