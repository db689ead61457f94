"""What a simulation is made of: rules, queue orders, schedulers, allocators, execution models, measures."""

from allocopt.simulator.decisions import PlaceGuest, Reserve, SetQuota, Start, Wait
from allocopt.simulator.execution import ExecutionModel, HopSlowdown
from allocopt.simulator.metrics import Metrics
from allocopt.simulator.placement import Allocator, Share
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, QueueKeys, QueueOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.view import View
from allocopt.simulator.what_if import WhatIf
from allocopt.simulator.window import OptimizationScheduler

__all__ = [
    "Allocator", "Backfill", "EventOrder", "ExecutionModel", "HopSlowdown", "ListScheduler", "Metrics",
    "OptimizationScheduler", "OrderKind", "PlaceGuest", "QueueKeys", "QueueOrder", "Reserve", "Rules", "Schedule",
    "Scheduler", "SetQuota", "Share", "Start", "View", "Wait", "WhatIf",
]  # fmt: skip
