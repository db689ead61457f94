"""Grids of solves or simulations: their specifications, the workers that run the cells, and the store of results.

`compare`, `what_if` and `sweep` run what the commands ``bench``, ``what-if`` and ``sweep`` run, and return tables.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.experiments.grids import compare, what_if
    from allocopt.experiments.plan import sweep

# Modules of the public names.
_HOMES = {"compare": "grids", "sweep": "plan", "what_if": "grids"}
__all__ = ["compare", "sweep", "what_if"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt.experiments' has no attribute {name!r}")
    return getattr(import_module(f"allocopt.experiments.{_HOMES[name]}"), name)
