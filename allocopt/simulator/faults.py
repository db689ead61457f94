"""Faults of schedulers and models that are not ours: who did it, and when."""

from allocopt.errors import PluginError
from allocopt.plugins import Fence


class SchedulerError(PluginError):
    """A scheduler, allocator or execution model that breaks a rule of the simulation, or raises; it is named."""


class Blame(Fence):
    """A `Fence` around schedulers, allocators and execution models."""

    __slots__ = ()

    error = SchedulerError
