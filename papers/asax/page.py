"""The ASAX paper's Tables 2 and 3 and its Figure 3 by simulation, compared with the printed numbers.

The page also has a lower bound, by a linear program, on the makespan of the queue with one guest per host.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from allocopt.arrays import FloatArray, IntArray
from allocopt.learned.asax.scheduler import Loss
from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, slowdowns
from allocopt.report.words import Cell
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.quota.scheduler import CoallocationScheduler, QuotaScheduler, SpaceSharing
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage
from papers.asax import tables
from papers.asax.tables import FIGURE_THREE, LESSONS, SEEDS, THREE, TWO, learner, queue_of, simulated
from papers.pages import Selection, page_parser, text_table, write_template

SEED = 1
"""Seed of the request; it gives the queues of seeds 10 .. 19.

The expert table was written with queues of seeds 100 .. 104 and 200 .. 214.
"""
SEQUENCES = 6
"""Number of learners, each of which sees one queue after the other."""
FIRST_SEED = 30_000
HINDSIGHT_QUEUES, FIRST_HINDSIGHT_SEED = 20, 40_000
EQUAL = "equal"
LOSSES = {"limit": (Loss.LIMIT, 0.0), "limit, idle counted": (Loss.LIMIT, 1.0)}
PARTS = {"queues 1 .. 7": slice(0, 7), "15 .. 20": slice(14, LESSONS)}
LAST = PARTS["15 .. 20"]

_CHANGES = {f"{column} over space sharing, +%": 2 for column in ("wait", "run time", "response")}
_METHODS = "(?:static-50(?:-memory|, paging [01])?|asax(?:, learning off)?|coallocation-scip)"
SELECTIONS = {
    "table3": Selection(
        THREE.name, rf"(\d+: {_METHODS})", {**_CHANGES, "CPU over space sharing, + points": 2}, has_spread=True
    ),
    "table2": Selection(
        TWO.name,
        r"(\d+: (?:static-50|asax), (?:montage|statistics))",
        {"CPU % of allotted": 2},
        has_spread=True,
    ),
}

RUN_FACTOR = 1.5
QUOTAS = tuple(range(10, 100, 10))
ROUNDING = 1e-9


@dataclass
class _Kind:
    # A stage of the jobs of one workflow and size, with the seconds that it takes in all of them, without sharing.
    job: ProfiledJob
    stage: Stage
    work_s: float = 0.0


def _uses_of(kinds: Sequence[_Kind]) -> Iterator[tuple[FloatArray, int, int]]:
    """Yield each way to use an allocation for a second: work done by kind, cores, and number of jobs."""
    alone = np.eye(len(kinds))
    for host, owner in zip(alone, kinds, strict=True):
        yield host, owner.job.cores, 1
        for guest, other in zip(alone, kinds, strict=True):
            size = other.job.cores / owner.job.cores
            if size <= 1 and owner.job.peak_memory() + size * other.job.peak_memory() <= 1 + ROUNDING:
                # Yield only one of the quotas with equal speeds.
                for of_host, of_guest in {_speeds(owner, other, percent) for percent in QUOTAS}:
                    yield of_host * host + of_guest * guest, owner.job.cores, 2


def _speeds(host: _Kind, guest: _Kind, percent: int) -> tuple[float, float]:
    quotas = (1 - percent / 100, percent / 100)
    tenants = [Tenant(one.job.cores, one.stage, quota) for one, quota in zip((host, guest), quotas, strict=True)]
    slow = slowdowns(tenants, host.job.cores, Sharing.SHARES, Interference())
    return round(float(1 / slow[0]), 9), round(float(1 / slow[1]), 9)


def _least_core_s(queue: Sequence[QueuedJob]) -> float:
    """Return a lower bound of the core-seconds of allocations.

    All work is done in allocations of one job, or of a host and a guest, at the rates of the execution model. Any
    stages may run together at any time, jobs may be interrupted, and the sum of run times may grow at most by the
    factor `RUN_FACTOR`.
    """
    kinds: dict[tuple[str, int, int], _Kind] = {}
    for one in queue:
        for place, stage in enumerate(one.job.profile):
            kind = kinds.setdefault((one.application, one.job.cores, place), _Kind(one.job, stage))
            kind.work_s += stage.share * one.job.remaining_s
    done, cores, present = zip(*_uses_of(list(kinds.values())), strict=True)
    work = np.array([kind.work_s for kind in kinds.values()])
    longest = [RUN_FACTOR * work.sum()]
    found = linprog(cores, [present], longest, np.column_stack(done), work, method="highs", bounds=(0, None))
    assert found.fun is not None, found.message
    return float(found.fun)


def _least_makespan_s(queue: Sequence[QueuedJob], cores: int) -> float:
    # Return the larger of two bounds: by the cores, and by the job that would end last without sharing.
    last = max(one.submit_s + one.job.remaining_s for one in queue) - min(one.submit_s for one in queue)
    return max(_least_core_s(queue) / cores, last)


def _bounds(seeds: Sequence[int]) -> str:
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        gains, changes = [], []
        for seed in seeds:
            queue = queue_of(seed, cores)
            base = simulated(queue, cores, SpaceSharing(), seed)
            ratio = _least_makespan_s(queue, cores) / base.makespan_s
            changes.append(100 * (ratio - 1))
            gains.append(100 * base.cpu_utilization * (1 / ratio - 1))
        lines.append([cores, *(f"{np.mean(values):.1f} ± {np.std(values):.1f}" for values in (gains, changes))])
    return text_table(("cores", "CPU over space sharing, at most + points", "makespan, at least +%"), lines)


def _learning(sequences: int) -> str:
    """Return a table of a learner's distance from the exact model, with a line per cluster and loss."""
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        seeds = np.arange(FIRST_SEED, FIRST_SEED + sequences * LESSONS).reshape(sequences, LESSONS)
        exact = _responses(cores, seeds, [[CoallocationScheduler("assignment")] * LESSONS] * sequences)
        for name, loss in LOSSES.items():
            going_on = [[learner(*loss)] * LESSONS for _ in range(sequences)]
            gaps = 100 * (_responses(cores, seeds, going_on) / exact - 1)
            new = [[learner(*loss) for _ in range(LESSONS)] for _ in range(sequences)]
            fresh = 100 * (_responses(cores, seeds[:, LAST], new) / exact[:, LAST] - 1)
            parts = [*(gaps[:, part] for part in PARTS.values()), fresh]
            lines.append([cores, name, *(f"{part.mean():.1f} ± {part.std() / part.size**0.5:.1f}" for part in parts)])
    return text_table(("cores", "loss", *PARTS, "the last ones, knowing nothing"), lines)


def _responses(cores: int, seeds: IntArray, schedulers: Sequence[Sequence[QuotaScheduler]]) -> FloatArray:
    """Return the mean responses of queues, each under its scheduler; a scheduler that is used again keeps learning."""

    def response_s(seed: int, scheduler: QuotaScheduler) -> float:
        return float(simulated(queue_of(seed, cores), cores, scheduler, seed).response_s.mean())

    pairs = zip(seeds.tolist(), schedulers, strict=True)
    return np.array([list(map(response_s, row, column)) for row, column in pairs])


def _hindsight(queues: int) -> str:
    """Return a table of the gains of the best weights in hindsight over equal ones, with a line per cluster.

    For one application after the other, either equal weights or a single expert is chosen, whichever gives the smallest
    mean response over some queues. The gain of the chosen weights, on these and on other queues, limits the gain of any
    learner.
    """
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        known, others = (
            range(first, first + queues) for first in (FIRST_HINDSIGHT_SEED, FIRST_HINDSIGHT_SEED + queues)
        )
        best = dict.fromkeys(APPLICATIONS, EQUAL)
        equal = response = _responses_by_weights(cores, known, best)
        for application in APPLICATIONS:
            for expert in learner().asax.knowledge.metrics:
                tried = best | {application: expert}
                if (found := _responses_by_weights(cores, known, tried)).mean() < response.mean():
                    best, response = tried, found
        ahead = 100 * (_responses_by_weights(cores, others, best) / _responses_by_weights(cores, others, {}) - 1)
        interval = 1.96 * ahead.std(ddof=1) / len(ahead) ** 0.5 if queues > 1 else np.inf
        chosen = ", ".join(f"{application}: {expert}" for application, expert in best.items())
        gain = f"{100 * (response / equal - 1).mean():.1f}"
        lines.append([cores, chosen, gain, f"{ahead.mean():.1f} ± {interval:.1f}"])
    return text_table(("cores", "best weights", "response on these queues, +%", "on others, +%"), lines)


def _responses_by_weights(cores: int, seeds: Sequence[int], best: Mapping[str, str]) -> FloatArray:
    """Return mean responses of queues with fixed weights of experts: one expert per application, or equal weights."""
    responses = []
    for seed in seeds:
        scheduler = learner(full_loss_at=np.inf)
        knowledge = scheduler.asax.knowledge
        for application, expert in best.items():
            if expert != EQUAL:
                knowledge.of(application).alpha = np.array([float(one == expert) for one in knowledge.metrics])
        responses.append(simulated(queue_of(seed, cores), cores, scheduler, seed).response_s.mean())
    return np.array(responses)


def main() -> None:
    """Measure and write the page."""
    quick = page_parser(__doc__, "one queue per line of each table").parse_args().quick
    queues, sequences = (1, 1) if quick else (SEEDS, SEQUENCES)
    request = ReproductionRequest(Path(), quick, (SEED,))
    records = {piece: THREE.measure(request, piece) for piece in THREE.pieces(request)}
    rows = {one.name: [asdict(row) for row in one.rows(request, records)] for one in (THREE, TWO, FIGURE_THREE)}
    updates = [run["updates"] for cores in CLUSTER_SIZES for run in records[f"{cores}: asax"]["runs"]]
    places = {
        "queues": SEEDS,
        "first": SEED * SEEDS,
        "last": SEED * SEEDS + SEEDS - 1,
        "between": tables.BETWEEN_S,
        "walltime": tables.WALLTIME_FACTOR,
        "full": tables.FULL_LOSS_AT,
        "lessons": LESSONS,
        "sequences": sequences,
        "not_once": updates.count(0),
        "runs": len(updates),
        "most": max(updates),
        "paging": Interference().paging,
        **{place: of.table(rows[of.artifact]) for place, of in SELECTIONS.items()},
        "factor": f"{100 * (RUN_FACTOR - 1):.0f}",
        "bounds": _bounds(range(SEED * SEEDS, SEED * SEEDS + queues)),
        "learning": _learning(sequences),
        "hindsight": _hindsight(1 if quick else HINDSIGHT_QUEUES),
        "hindsight_queues": HINDSIGHT_QUEUES,
    }
    write_template(__file__, "asax", places, quick)


if __name__ == "__main__":
    main()
