"""The interface by which a lab displays itself in a notebook.

notebook.py shows labs; it draws figures and therefore imports every lab, so a lab cannot import it in turn. The
lab calls `display()` instead, whose implementation is registered once, in compute/__init__.py, and loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

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
