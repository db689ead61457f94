"""Arguments from which no environment can be made are refused, and named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.workloads import random_workload, workload

from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.envs.batch_scheduling.task import BatchSchedulingEnv, MeanWait
from allocopt.envs.coallocation import task as coallocation
from allocopt.envs.coallocation.task import CoallocationEnv
from allocopt.envs.cush import dynamics as cush_dynamics
from allocopt.envs.cush import task as cush
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.task import CushEnv
from allocopt.envs.dras import task as dras
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import TwoLevelEnv
from allocopt.envs.policy_selection import task as policy_selection
from allocopt.envs.policy_selection.task import PolicySelectionEnv
from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.simulator.locality import SIERRA_TABLE
from allocopt.traces.applications import asax_queue
from allocopt.traces.generators import lublin_workload

JOBS = lublin_workload(20, 64, np.random.default_rng(0))
QUEUE = asax_queue(np.random.default_rng(0), walltime_factor=1.25, between_s=120.0)
NODES, SMALL, MISSING = irmasim_testbed({3.4: 2}), Machine(4, 2, 4), Path("missing.swf")


def jobset(requests: Any, service: float) -> JobSet:
    return JobSet(np.zeros(1, dtype=int), np.ones(1), np.array(requests), np.full((1, 2), service), np.ones((1, 3)))


USAGE: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (BatchSchedulingEnv, {"n_jobs": 0}, "n_jobs is 0, must be at least 1"),
    (BatchSchedulingEnv, {"window": 0}, "window is 0, must be at least 1"),
    (BatchSchedulingEnv, {"processors": 0}, "processors is 0, must be at least 1"),
    (BatchSchedulingEnv, {"backfill": "conservative"}, "backfill is 'conservative', must be one of none, easy"),
    (BatchSchedulingEnv, {"reward": "wait"}, r"reward is 'wait', must be BoundedSlowdown\(...\) or MeanWait\(...\) or"),
    (BatchSchedulingEnv, {"rules": {}}, r"rules is {}, must be Rules\(...\)"),
    (coallocation.CoallocationOptions, {"reward": "wait"}, r"reward is 'wait', must be Capacity\(...\)"),
    (cush.CushOptions, {"reward": "wait"}, r"reward is 'wait', must be Weights\(...\)"),
    (CushEnv, {"options": {"queue": 3}}, r"must be CushOptions\(...\)"),
    (BatchSchedulingEnv, {"reward": MeanWait(0.0)}, "unit is 0.0 s, must be positive"),
    (BatchSchedulingEnv, {"workload": JOBS, "n_jobs": 21}, "lublin has 20 jobs, fewer than n_jobs=21"),
    (BatchSchedulingEnv, {"workload": JOBS, "n_jobs": 5, "processors": 2}, "of 2; drop such jobs with Workload"),
    (BatchSchedulingEnv, {"workload": workload([(1, 0.0, 1.0, 1, 1.0)]), "n_jobs": 1}, "does not state the size"),
    (coallocation.CoallocationOptions, {"percents": (10, 20)}, "must rise from 0"),
    (coallocation.CoallocationOptions, {"percents": (0, 95)}, "at most 90"),
    (coallocation.CoallocationOptions, {"window": 0}, "window is 0"),
    (coallocation.CoallocationOptions, {"period_s": 0.0}, "must be positive"),
    (coallocation.Capacity, {"degradation_weight": -1.0}, "degradation weight"),
    (CoallocationEnv, {"jobs": []}, "no jobsets"),
    *((CoallocationEnv, {"jobs": jobs}, "the jobs must be") for jobs in (3, (3,), ((),))),
    (CoallocationEnv, {"cores": 0}, "number of cores"),
    (CoallocationEnv, {"jobs": QUEUE, "options": {"window": 3}}, "must be CoallocationOptions"),
    (cush.CushOptions, {"queue": 0}, "queue is 0"),
    (cush.CushOptions, {"queue": 1.5}, r"queue is 1\.5, must be a whole number"),
    (cush.CushOptions, {"observation": "film"}, "one of image, slots"),
    (cush_dynamics.Weights, {"waiting": float("nan")}, "finite"),
    (CushEnv, {"machine": "k"}, "one of sierra, summit"),
    (CushEnv, {"machine": 3}, "the machine is 3, must be one of sierra, summit, or a Machine"),
    (CushEnv, {"jobsets": []}, "no jobsets"),
    (cush.CushEpisodes, {"jobsets": Recipe().draw_each(Machine(), SIERRA_TABLE, [0]), "machine": SMALL}, "asks for"),
    (Recipe, {"share": 1.5}, "share"),
    (Recipe().draw_runs, {"machine": SMALL, "table": SIERRA_TABLE, "seeds": [0], "applications": 0}, "ations is 0"),
    (Machine, {"nodes": 1.5}, r"number of nodes is 1\.5, must be a whole number"),
    (dras.DrasOptions, {"window": 0}, "window is 0"),
    (dras.DrasOptions, {"observation": "nodes"}, "observation"),
    (dras.DrasEpisodes, {"jobsets": [random_workload(200, 0)], "machine": 4}, "asks for 8 nodes of 4"),
    (dras.DrasEpisodes, {"jobsets": [], "machine": 4}, "0 jobsets"),
    (Weights, {"mean_wait": np.nan}, "mean_wait is nan"),
    (TwoLevelEnv, {"workload": JOBS, "reservations": "some"}, "kept, renewed, none"),
    (TwoLevelEnv, {"workload": []}, "there are no jobsets; give at least one, or None"),
    (TwoLevelEnv, {"window": 1.5}, r"the window is 1\.5, must be a whole number within 1 \.\. 100000"),
    (TwoLevelEnv, {"processors": "5"}, "the number of processors is '5', must be a whole number at least 1"),
    (TwoLevelEnv, {"reward": ()}, r"reward is \(\), must be Weights"),
    (TwoLevelEnv, {"rules": 3}, "rules is 3, must be Rules"),
    (policy_selection.PolicySelectionOptions, {"level": "large"}, "normal, small, minimal"),
    (policy_selection.PolicySelectionOptions, {"reward": "money"}, "makespan, energy"),
    (policy_selection.PolicySelectionOptions, {"actions": ("void",)}, "add at least one that starts jobs"),
    (
        policy_selection.PolicySelectionOptions,
        {"actions": ("first-low_power", "first-low_power")},
        "give distinct policies",
    ),
    (policy_selection.PolicySelectionOptions, {"actions": ("first-lowpower",)}, "did you mean"),
    *(
        (policy_selection.PolicySelectionOptions, {"actions": names}, "sequence of names")
        for names in ("first-low_power", (3,))
    ),
    (policy_selection.PolicySelectionEpisodes, {"jobsets": [], "machine": NODES}, "at least 1 of each"),
    *((PolicySelectionEnv, {"jobs": jobs}, "the jobs must be a TaskWorkload or several") for jobs in (3, (3,))),
    (PolicySelectionEnv, {"options": {"level": "small"}}, "options must be PolicySelectionOptions"),
    (PolicySelectionEnv, {"jobs": []}, "no jobsets"),
    (PolicySelectionEnv, {"machine": 3}, "the machine is 3, must be a Machine"),
]


@pytest.mark.parametrize(("make", "arguments", "fault"), USAGE)
def test_arguments_that_cannot_be_are_named(make: Callable[..., Any], arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        make(**arguments)


@pytest.mark.parametrize("make", [BatchSchedulingEnv, TwoLevelEnv, PolicySelectionEnv])
def test_a_file_that_is_not_there_is_named(make: Callable[[Path], Any]) -> None:
    with pytest.raises(BadFileError, match=r"missing\.swf"):
        make(MISSING)


def test_jobs_that_do_not_fit_a_cluster_or_never_wait_are_refused_at_the_first_reset() -> None:
    with pytest.raises(InvalidProblemError, match="asks for"):
        CoallocationEnv(8, QUEUE).reset(seed=0)
    with pytest.raises(UsageError, match="asks no question"):
        CoallocationEnv(4096, QUEUE).reset(seed=0)


@pytest.mark.parametrize(
    ("requests", "service", "fault"),
    [([[1, 1], [1, 1]], 1.0, "shapes"), ([[1, 1]], 0.0, "times > 0"), ([[0, 0]], 1.0, "at least one of them > 0")],
)
def test_job_sets_that_cannot_be_are_refused(requests: list[list[int]], service: float, fault: str) -> None:
    with pytest.raises(InvalidProblemError, match=fault):
        jobset(requests, service)
