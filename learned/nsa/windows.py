"""Windows to train on: the paper's workload from a seed, replayed in epochs that begin on an idle cluster."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.window import windows
from allocopt.solving.budget import Budget
from allocopt.traces.generators import uniform_workload
from allocopt.traces.workload import COLUMNS, Workload
from heuristics.topology.annealing import Annealing
from learned.rl.training import check_training_seed

PAPER_CLUSTER = FatTree(10, 10, 10)
"""1,000 nodes, a pruned fat tree of radix 20 (section VI-A)."""
PERIOD_S = 60.0
"""Length of a period (Table I)."""
WINDOWS_PER_EPOCH = 100
JOBS_PER_EPOCH = 1_000
"""Jobs of a workload that an epoch may use: more than enough for its windows."""
REPLAY_STEPS = 300
"""Steps of the annealing that decides how the cluster goes on from window to window."""


def epoch_workload(workload: Workload, first: int, n_jobs: int) -> Workload:
    """Return some consecutive jobs of a workload alone, the first submitted at time 0."""
    jobs = slice(first, first + n_jobs)
    alone = replace(workload, **{column: getattr(workload, column)[jobs] for column in COLUMNS})
    return replace(alone, submit=alone.submit - alone.submit[0])


def training_windows(seed: int, n_epochs: int) -> Iterator[TopologyProblem]:
    """Yield windows of the paper's workload from a seed, 100 of every epoch.

    Raises `UsageError` if the seed is reserved for evaluation.
    """
    check_training_seed(seed)
    workload = uniform_workload(n_epochs * JOBS_PER_EPOCH, np.random.default_rng(seed))
    solver = Annealing()

    def allocate(problem: TopologyProblem) -> Allocation:
        result = solver.solve(problem.with_strategy(Strategy.DCAS), Budget(iterations=REPLAY_STEPS), seed)
        return result.unless_interrupted().found()

    for epoch in range(n_epochs):
        jobs = epoch_workload(workload, epoch * JOBS_PER_EPOCH, JOBS_PER_EPOCH)
        yield from islice(windows(jobs, PAPER_CLUSTER, PERIOD_S, allocate, min_jobs=1), WINDOWS_PER_EPOCH)
