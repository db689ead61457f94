"""The simulator: rules, queue orders, schedulers, allocators, execution models, and metrics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.simulator.decisions import PlaceGuest, Requeue, Reserve, SetQuota, Start, Wait
    from allocopt.simulator.evaluation import evaluate
    from allocopt.simulator.execution import ExecutionModel, HopSlowdown
    from allocopt.simulator.held_nodes import Allocator, Share
    from allocopt.simulator.metrics import Metrics
    from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, QueueKeys, QueueOrder, Rules
    from allocopt.simulator.schedule import Schedule
    from allocopt.simulator.scheduler import ListScheduler, Scheduler
    from allocopt.simulator.view import View
    from allocopt.simulator.what_if import WhatIf
    from allocopt.simulator.window import OptimizationScheduler, SolvedWindow, WindowScheduler

# Modules of the public names.
_HOMES = {
    "decisions": ["PlaceGuest", "Requeue", "Reserve", "SetQuota", "Start", "Wait"],
    "evaluation": ["evaluate"],
    "execution": ["ExecutionModel", "HopSlowdown"],
    "held_nodes": ["Allocator", "Share"],
    "metrics": ["Metrics"],
    "rules": ["Backfill", "EventOrder", "OrderKind", "QueueKeys", "QueueOrder", "Rules"],
    "schedule": ["Schedule"],
    "scheduler": ["ListScheduler", "Scheduler"],
    "view": ["View"],
    "what_if": ["WhatIf"],
    "window": ["OptimizationScheduler", "SolvedWindow", "WindowScheduler"],
}
__all__ = [
    "Allocator", "Backfill", "EventOrder", "ExecutionModel", "HopSlowdown", "ListScheduler", "Metrics",
    "OptimizationScheduler", "OrderKind", "PlaceGuest", "QueueKeys", "QueueOrder", "Requeue", "Reserve", "Rules",
    "Schedule", "Scheduler", "SetQuota", "Share", "SolvedWindow", "Start", "View", "Wait", "WhatIf", "WindowScheduler",
    "evaluate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'allocopt.simulator' has no attribute {name!r}")
    return getattr(import_module(f"allocopt.simulator.{home}"), name)
