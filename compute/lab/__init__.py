"""What a lab is: its parameters, frames, history, panels and plug-ins. `from compute.lab import Lab` derives one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compute.lab.lab import Lab

__all__ = ["Lab"]


def __getattr__(name: str) -> Any:
    """Import Lab at its first use: modules of this package do not need it."""
    if name == "Lab":
        from compute.lab.lab import Lab

        return Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
