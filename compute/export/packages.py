"""Optional libraries of some exports: imported on first use; a missing one raises an error with the install command."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from compute.export.scene import SceneError


@dataclass(frozen=True)
class Package:
    """An optional library. name: of the module; extra: of Fieldlab that installs it.

    purpose: beginning of the error for a missing library, as "Zarr needs".
    """

    name: str
    extra: str
    purpose: str

    @property
    def install(self) -> str:
        """Return the install command."""
        return f"pip install 'fieldlab[{self.extra}]'"

    @property
    def installed(self) -> bool:
        """Return whether the library can be imported."""
        return find_spec(self.name) is not None

    def load(self) -> Any:
        """Import the library and return the module. Raise SceneError with the install command if that fails."""
        try:
            return import_module(self.name)
        except ModuleNotFoundError as error:
            raise SceneError(f"{self.purpose} the package {self.name}: {self.install}") from error


AV = Package("av", "video", "films as MP4 or WebM need")
ZARR = Package("zarr", "data", "Zarr needs")
PYARROW = Package("pyarrow", "data", "Parquet needs")
DISTRIBUTED = Package("distributed", "cluster", "--scheduler needs")
