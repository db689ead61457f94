"""The level of the costs in Tables III and IV: which reading of the paper gives the printed numbers.

Every row is a reading. The first is that of ``nsa-table3``; the next ones change one thing, then several; the last ones
follow the authors' program (see `papers.nsa.authors`). As in the program, epochs begin at randomly drawn jobs, the same
for all readings. The program's own draws are not known, so that the printed means are those of another sample: over ten
epochs their standard error is 0.9 (Seq.) to 1.5 % (the SCAS optimum).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree
from allocopt.learned.nsa.training import JOBS_PER_EPOCH, PAPER_CLUSTER
from allocopt.problems.topology import TopologyProblem
from allocopt.reproduction import Records
from allocopt.solving.result import Result
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of, seed_and_name
from papers.nsa import tables
from papers.nsa.authors import (
    AUTHORS_CLUSTER,
    Conventions,
    Nodes,
    Period,
    periods,
)
from papers.nsa.interpreted import InterpretedWalk
from papers.nsa.tables import (
    AS_RUN,
    AVERAGE,
    EPOCHS,
    LEADER,
    OPTIMUM,
    PUBLISHED,
    WALK,
    Method,
    Methods,
    read_paper_workload,
)

PROGRAM = Conventions()

METHODS: Methods = {
    "Seq.": Method("sequential", "scas"),
    "SA-500": Method(WALK, "free", 500),
    "SA-1000": Method(WALK, "free", 1000),
    LEADER: Method(AS_RUN, "free", 500),
    OPTIMUM: Method("dp", "scas", None, 60.0),
}
INTERPRETED: Methods = {
    **METHODS,
    "SA-500": Method(InterpretedWalk(500), "free"),
    "SA-1000": Method(InterpretedWalk(1000), "free"),
    LEADER: Method(InterpretedWalk(500, "cnn-3"), "free"),
}
PRINTED = {name: PUBLISHED["table4" if name == OPTIMUM else "table3"][AVERAGE][f"{name} cost"] for name in METHODS}
"""The printed means over the epochs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of details that the paper does not print.

    Costs are means over jobs or over periods, including periods without a window. The first ``skipped`` periods are not
    counted. The best of the ``leaders`` methods decides which jobs start.
    """

    conventions: Conventions
    per: str = "job"  # or ``period``
    skipped: int = 0
    leaders: tuple[str, ...] = (LEADER,)
    methods: Methods = field(default_factory=lambda: METHODS)


def _on(topology: FatTree) -> Conventions:
    return Conventions(topology, most_jobs=None, ones_last=False, solving_s=0.0)


_HERE = _on(PAPER_CLUSTER)
_HOPS, _ONCE = (1, 3, 5), _on(FatTree(10, 10, 10, pairs="unordered"))
_BOTH = _on(FatTree(10, 10, 10, hops=_HOPS, pairs="unordered"))
_AUTHORS = _on(AUTHORS_CLUSTER)
READINGS = {
    "as in nsa-table3": Reading(_HERE),
    "1, 3 and 5 hops": Reading(_on(FatTree(10, 10, 10, hops=_HOPS))),
    "each pair once": Reading(_ONCE),
    "25 pods of 4 x 10 nodes": Reading(_on(FatTree(25, 4, 10))),
    "5 pods of 20 x 10 nodes": Reading(_on(FatTree(5, 20, 10))),
    "20 pods of 10 x 10 nodes, a full tree": Reading(_on(FatTree(20, 10, 10))),
    "not idle at first: after 100 periods": Reading(_HERE, skipped=100),
    "the SCAS optimum decides where it is better": Reading(_HERE, leaders=(LEADER, OPTIMUM)),
    "a sum per period": Reading(_HERE, per="period"),
    "a sum per period, each pair once": Reading(_ONCE, per="period"),
    "a sum per period, each pair once, 1, 3 and 5 hops": Reading(_BOTH, per="period"),
    "the authors' cluster, a mean over jobs": Reading(_AUTHORS),
    "the authors' cluster, a sum per period": Reading(_AUTHORS, per="period"),
    "and the authors' windows": Reading(PROGRAM, per="period"),
    "and the SCAS optimum decides where it is better": Reading(PROGRAM, per="period", leaders=(LEADER, OPTIMUM)),
    "and the authors' walk": Reading(PROGRAM, per="period", methods=INTERPRETED),
}
"""Readings by name; a reading that begins with *and* adds to the previous one, but does not keep its leaders."""


def drawn_starts(asked: Asked, workload: Workload, seed: int) -> list[int]:
    """Draw the first jobs of the epochs."""
    latest = max(1, len(workload) - JOBS_PER_EPOCH)
    n_epochs = asked.size(EPOCHS, tables.QUICK_EPOCHS)
    starts: list[int] = np.random.default_rng(seed).integers(latest, size=n_epochs).tolist()
    return starts


def solved_periods(
    workload: Workload, first: int, conventions: Conventions, methods: Methods, leaders: tuple[str, ...]
) -> Iterator[tuple[Period, dict[str, Result]]]:
    """Yield the periods of an epoch with the answers of all methods; the best leader decides which jobs start."""
    numbers = count(1000 * first)
    answers: dict[str, Result] = {}

    def allocate(problem: TopologyProblem) -> Nodes:
        seed = next(numbers)
        answers.update((name, method.solve(problem, seed)) for name, method in methods.items())
        best = min((answers[name] for name in leaders), key=lambda result: result.objective or 0.0)
        nodes: tuple[IntArray, ...] = best.found().nodes
        return nodes

    for period in periods(workload, conventions, allocate, first):
        yield period, dict(answers) if period.window is not None else {}


def mean_costs(asked: Asked, first: int, reading: Reading) -> dict[str, float]:
    """Return the mean cost of an epoch by method."""
    sums = dict.fromkeys(reading.methods, 0.0)
    jobs, n_periods = 0, asked.size(tables.WINDOWS, tables.QUICK_WINDOWS)
    workload = read_paper_workload(asked)
    every = solved_periods(workload, first, reading.conventions, reading.methods, reading.leaders)
    for period, answers in islice(every, reading.skipped, reading.skipped + n_periods):
        jobs += len(period.window.jobs) if period.window is not None else 0
        for name, result in answers.items():
            sums[name] += float(result.objective or 0.0)
    return {name: total / (n_periods if reading.per == "period" else max(1, jobs)) for name, total in sums.items()}


def _level_record(asked: Asked, piece: str) -> Record:
    seed, name = seed_and_name(piece)
    starts = drawn_starts(asked, read_paper_workload(asked), seed)
    return {"epochs": [mean_costs(asked, first, READINGS[name]) for first in starts]}


def _level_numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        name, errors = seed_and_name(piece)[1], {}
        for method, printed in PRINTED.items():
            found = mean_of(name, f"{method} cost", [epoch[method] for epoch in record["epochs"]], printed)
            errors[method] = 100 * abs((found.ours or 0.0) / printed - 1)
            yield found
        yield Number(name, "largest error, %", max(errors.values()), None, len(record["epochs"]))
        others = [error for method, error in errors.items() if method != LEADER]
        yield Number(name, f"largest error but for {LEADER}, %", max(others), None, len(record["epochs"]))


LEVEL = Artifact(
    "nsa-cost-level",
    "Tables III and IV of the NSA paper: the level of the costs by readings of what is not printed",
    lambda asked: [f"seed {seed}: {name}" for seed in asked.seeds for name in READINGS],
    _level_record,
    _level_numbers,
)
