"""Registration of the environments, so that ``import allocopt; gymnasium.make("allocopt/...")`` works.

Gymnasium 1.0 and later does not load plug-ins automatically, and importing it takes longer than ``import allocopt``
should. So the environments are registered as soon as both packages are imported, in any order.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    # Importing it takes longer than all of `allocopt`.
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ENVIRONMENTS = "allocopt.envs"


def register_with_gymnasium() -> None:
    """Register the environments now if gymnasium is imported, else as soon as it is."""
    if "gymnasium" in sys.modules:
        import_module(_ENVIRONMENTS)
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finder that finds gymnasium once, and gives it a loader that registers the environments."""

    def find_spec(
        self, fullname: str, path: "Sequence[str] | None", target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if fullname != "gymnasium":
            return None
        from importlib.util import find_spec

        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Registering(spec.loader))
        return spec


class _Registering:
    """Loader that loads gymnasium with its own loader, then registers the environments."""

    def __init__(self, loader: "Loader") -> None:
        self.loader = loader

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self.loader.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        # Restore the original loader, as after a normal import.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        import_module(_ENVIRONMENTS)
