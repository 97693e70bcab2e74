"""Fieldlab without a screen: labs, backends, devices and honest timings, for notebooks, scripts and the app.

`from compute import LABS` imports the labs, and with them Numba; a module of the package alone, such as
compute.devices.kernel_cache, does not, so that `fieldlab serve` can look into it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compute.lab import in_notebook, lab_folders, limits

if TYPE_CHECKING:
    from compute.devices.backends import BACKENDS, BackendUnavailable
    from compute.labs import LABS

__all__ = ["BACKENDS", "LABS", "BackendUnavailable"]


def _notebook() -> in_notebook.NotebookDisplay:
    """It loads what pictures in files need."""
    from compute.lab import notebook

    return notebook


class _SettingsLimits:
    """The limits of this process's settings, read at each use."""

    def require(self, name: str, value: int) -> None:
        """Raise ValueError if `value` exceeds the limit."""
        from compute.cli import settings

        settings.require(name, value)

    def limit(self, name: str) -> int:
        """Return the limit in its unit."""
        from compute.cli import settings

        return settings.limit(name)


in_notebook.show_with(_notebook)
limits.limit_with(_SettingsLimits())
lab_folders.install()


def __getattr__(name: str) -> Any:
    """Import LABS or BACKENDS at the first use; see PEP 562."""
    if name == "LABS":
        from compute.labs import LABS

        return LABS
    if name in {"BACKENDS", "BackendUnavailable"}:
        from compute.devices import backends

        return {"BACKENDS": backends.BACKENDS, "BackendUnavailable": backends.BackendUnavailable}[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
