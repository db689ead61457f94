"""Traces: their formats, the workloads that they hold, generators, and jobs with profiles or tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.traces.csv_columns import Columns
    from allocopt.traces.reading import read_workload
    from allocopt.traces.workload import Workload

# Modules of the public names.
_HOMES = {"Columns": "csv_columns", "Workload": "workload", "read_workload": "reading"}
__all__ = ["Columns", "Workload", "read_workload"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt.traces' has no attribute {name!r}")
    return getattr(import_module(f"allocopt.traces.{_HOMES[name]}"), name)
