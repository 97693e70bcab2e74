"""Libraries that only some exports need: they are imported when they are used, and what is missing is said in words."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from compute.export.scene import SceneError


@dataclass(frozen=True)
class Package:
    """An optional library. name: to import it by; extra: of Fieldlab, which brings it; wanted: who needs it."""

    name: str
    extra: str
    wanted: str

    @property
    def install(self) -> str:
        """The line that installs it."""
        return f"pip install 'fieldlab[{self.extra}]'"

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return find_spec(self.name) is not None

    def load(self) -> Any:
        """Import it and return the module; SceneError, with the line that installs it, if it is missing."""
        try:
            return import_module(self.name)
        except ModuleNotFoundError as error:
            raise SceneError(f"{self.wanted} the package {self.name}: {self.install}") from error


AV = Package("av", "video", "films as MP4 or WebM need")
ZARR = Package("zarr", "data", "Zarr needs")
PYARROW = Package("pyarrow", "data", "Parquet needs")
DISTRIBUTED = Package("distributed", "cluster", "--scheduler needs")
