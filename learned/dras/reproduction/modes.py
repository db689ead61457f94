"""Table 4 and Figure 9: how jobs came to run, as ready ones, by reservation or by backfilling."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.rules import Mode
from allocopt.simulator.schedule import Schedule, job_times, run_times
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import TwoLevelLog
from heuristics.scheduling.two_level import TwoLevelOrders
from learned.dras.policies import AgentScheduler
from learned.dras.reproduction.measures import box_of
from learned.dras.reproduction.methods import PAPER_METHODS, REFERENCE, Trained, present, schedulers
from learned.dras.reproduction.published import TABLE_FOUR
from learned.dras.reproduction.sites import JOBSETS, THETA, jobsets_of

MODES = (Mode.BACKFILLED, Mode.READY, Mode.RESERVED)
LARGE_SHARE = 0.25
"""Share of the machine from which on a job counts as large."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Jobs of some simulations: arrays of shape ``(n,)``.

    Parameters
    ----------
    size, node_s, wait_s
        Nodes, what they held in node seconds, and waits in seconds.
    mode
        How they came to run.
    late
        Whether a job that ran by reservation started after the time that it was promised.
    """

    size: IntArray
    node_s: FloatArray
    wait_s: FloatArray
    mode: IntArray
    late: IntArray


def placed(method: str, kind: str, request: ReproductionRequest, trained: Trained) -> Placed:
    """Simulate the jobsets of Theta by a method, with the first of its trainings."""
    chosen = schedulers(method, THETA, request.seeds, trained)[0]
    # FCFS with EASY as two-level scheduling, which says how jobs came to run; its schedules are the same.
    scheduler = TwoLevelOrders("fcfs", "fcfs") if method == REFERENCE else chosen
    parts = []
    for jobs in jobsets_of(THETA, kind, request):
        schedule = simulate(jobs, THETA.processors, scheduler)
        parts.append(
            _placed(schedule, scheduler.log if isinstance(scheduler, TwoLevelOrders | AgentScheduler) else None)
        )
    return _together(parts)


def _placed(schedule: Schedule, log: TwoLevelLog | None) -> Placed:
    """Describe the jobs of a schedule; without a log all of them were ready."""
    size = schedule.workload.processors
    mode = np.full(len(size), int(Mode.READY)) if log is None else log.modes
    promised = np.full(len(size), np.inf) if log is None else log.promised
    late = (mode == Mode.RESERVED) & (schedule.start > promised)
    return Placed(size, size * run_times(schedule), job_times(schedule).wait_s, mode, late.astype(np.int64))


def _together(parts: Iterable[Placed]) -> Placed:
    """Join the jobs of several schedules."""
    every = tuple(parts)
    return Placed(*(np.concatenate([getattr(part, name) for part in every]) for name in Placed.__slots__))


@dataclass(frozen=True, slots=True)
class _ByMode:
    """What both reproductions have in common.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights (those of the first training of each agent) are taken in place of the
        shipped ones.
    """

    trained: str = ""

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return jobsets and methods."""
        return [
            f"{kind}: {method}" for kind in JOBSETS for method in present(PAPER_METHODS, THETA, Trained(self.trained))
        ]

    def placed(self, request: ReproductionRequest, piece: str) -> Placed:
        """Simulate the jobsets of a piece."""
        kind, method = piece.split(": ")
        return placed(method, kind, request, Trained(self.trained))


@dataclass(frozen=True, slots=True)
class TableFourReproduction(_ByMode):
    """Table 4 of the DRAS paper; see `_ByMode`."""

    name: ClassVar[str] = "dras-table4"
    title: ClassVar[str] = "Table 4 of the DRAS paper: shares of jobs and core hours by mode, on Theta"

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Return the shares under a method."""
        jobs = self.placed(request, piece)
        large = jobs.size >= LARGE_SHARE * THETA.processors
        return {
            "jobs": len(jobs.size),
            "shares": {mode.name.lower(): _shares(jobs, jobs.mode == mode, large) for mode in MODES},
            "late": int(jobs.late.sum()),
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the shares in per cent beside the published ones."""
        rows = []
        for piece, record in records.items():
            printed = TABLE_FOUR[piece.split(": ")[1]]
            for mode, shares in record["shares"].items():
                for column, share in shares.items():
                    published = getattr(printed[mode], column.replace(" ", "_"), None)
                    rows.append(_row(self.name, piece, f"{mode}, {column} %", published, 100 * share, record["jobs"]))
            rows.append(_row(self.name, piece, "started after the promised time", None, record["late"], record["jobs"]))
        return rows


@dataclass(frozen=True, slots=True)
class FigureNineReproduction(_ByMode):
    """Figure 9 of the DRAS paper; see `_ByMode`."""

    name: ClassVar[str] = "dras-figure9"
    title: ClassVar[str] = "Figure 9 of the DRAS paper: waits by mode, on Theta"

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Return the boxes of waits under a method."""
        jobs = self.placed(request, piece)
        return {mode.name.lower(): box_of(jobs.wait_s[jobs.mode == mode]) for mode in MODES}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the boxes, of which the paper prints pictures."""
        return [
            row
            for piece, record in records.items()
            for mode, box in record.items()
            for row in box_rows(self.name, f"{piece}, {mode}", box)
        ]


def box_rows(artifact: str, row: str, box: dict[str, float], longest: float | None = None) -> list[ReproductionRow]:
    """Return the rows of a box; none where there are no jobs."""
    return [
        _row(artifact, row, f"wait h, {name}", longest if name == "max" else None, value, int(box["n"]))
        for name, value in box.items()
        if name != "n"
    ]


def _shares(
    jobs: Placed, chosen: "np.ndarray[Any, np.dtype[np.bool_]]", large: "np.ndarray[Any, np.dtype[np.bool_]]"
) -> dict[str, float]:
    """Return the shares of some jobs in the number of jobs, in what all jobs held, and in what large jobs held."""
    held_by_large = jobs.node_s[large].sum()
    return {
        "jobs": float(chosen.mean()),
        "core hours": float(jobs.node_s[chosen].sum() / jobs.node_s.sum()),
        "core hours of large jobs": float(jobs.node_s[chosen & large].sum() / held_by_large) if held_by_large else 0.0,
    }


def _row(artifact: str, row: str, column: str, published: float | None, ours: float, n: int) -> ReproductionRow:
    """Return a row of a single value."""
    return ReproductionRow(artifact, row, column, published, float(ours), None, n)
