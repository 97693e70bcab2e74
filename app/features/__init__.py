"""The features of the page. Each folder is one, and the app works without it: see app/page/feature.py."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from app.page.feature import Feature


@cache
def features() -> tuple[type[Feature], ...]:
    """Return the features of this installation in their order; TypeError for a folder that does not define one."""
    found = []
    for module in iter_modules(__path__, f"{__name__}."):
        if module.ispkg:
            feature = getattr(import_module(module.name), "FEATURE", None)
            if not (isinstance(feature, type) and issubclass(feature, Feature)):
                raise TypeError(f"{module.name} must define FEATURE, a subclass of {Feature.__module__}.Feature")
            found.append(feature)
    return tuple(sorted(found, key=lambda feature: feature.order))
