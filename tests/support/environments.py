"""Small environments of every task, and episodes without Gymnasium."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from support.multicore import random_jobs, random_machine
from support.workloads import MACHINE, random_workload

import allocopt.envs
from allocopt.envs import COALLOCATION, CUSH, ENVIRONMENT, POLICY_SELECTION, TWO_LEVEL
from allocopt.envs.cush import task as cush
from allocopt.envs.cush.jobsets import Machine, Recipe
from allocopt.envs.environments import Task
from allocopt.envs.policy_selection import task as policy_selection
from allocopt.simulator.locality import SIERRA_TABLE
from allocopt.traces.applications import asax_queue


def task_of(name: str) -> type[Task[Any, Any]]:
    """Return the task of an id."""
    folder, class_name = allocopt.envs.TASKS[name]
    task: type[Task[Any, Any]] = getattr(importlib.import_module(f"allocopt.envs.{folder}.task"), class_name)
    return task


def cush_arguments() -> dict[str, Any]:
    """Return six jobs on four nodes."""
    machine = Machine(4, 2, 4)
    jobsets = Recipe(jobs=6).draw_each(machine, SIERRA_TABLE, range(3))
    return {"machine": machine, "jobsets": jobsets, "options": cush.CushOptions()}


def policy_selection_arguments() -> dict[str, Any]:
    """Return some ten jobs and two policies."""
    rng = np.random.default_rng(6)
    machine = random_machine(rng)
    options = policy_selection.PolicySelectionOptions(actions=("first-high_cores", "shortest-high_cores"))
    return {"machine": machine, "jobs": [random_jobs(rng, machine, 9 + n) for n in range(3)], "options": options}


ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    ENVIRONMENT: lambda: {"workload": random_workload(60, 1), "n_jobs": 20, "window": 5},
    TWO_LEVEL: lambda: {
        "workload": [random_workload(30 + 7 * n, n) for n in range(3)],
        "processors": MACHINE,
        "window": 5,
    },
    CUSH: cush_arguments,
    POLICY_SELECTION: policy_selection_arguments,
    COALLOCATION: lambda: {
        "jobs": [asax_queue(np.random.default_rng(n), walltime_factor=1.25, between_s=120.0)[:8] for n in range(3)]
    },
}
"""By id, arguments of environments with three jobsets at least and short episodes."""


def action_of(name: str, mask: np.ndarray, rng: np.random.Generator) -> Any:
    """Return a random action of one mask, any where nothing is legal."""
    if name == CUSH:
        slots = mask[:-2]
        return np.array([rng.choice(np.flatnonzero(slots)) if slots.any() else len(slots) - 1, rng.integers(0, 2)])
    return rng.choice(np.flatnonzero(mask)) if mask.any() else np.int64(0)
