"""Waits on Theta by size of job (Figure 8) and by how jobs came to run (Figure 9), and shares of these (Table 4).

The paper prints pictures; of its text are the longest waits.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.reproduction import Records
from allocopt.simulator.rules import Mode
from allocopt.simulator.schedule import job_times, run_times
from allocopt.simulator.simulate import simulate
from heuristics.scheduling.two_level import TwoLevelOrders
from learned.dras.policies import AgentScheduler
from papers.artifact import Artifact, Asked, Number, Record
from papers.dras.configuration import JOBSETS, PAPER_METHODS, REFERENCE, THETA, jobsets_of, present, schedulers
from papers.dras.figures import HOUR_S
from papers.dras.published import LONGEST_WAIT_H, TABLE_FOUR

MODES = (Mode.BACKFILLED, Mode.READY, Mode.RESERVED)
LARGE_SHARE = 0.25
"""Share of the machine from which on a job counts as large."""
ALL_SIZES = "all sizes"

Box = dict[str, float]
"""Least, quartiles, greatest and mean of some waits in hours, and their number."""


class Placed(NamedTuple):
    """Jobs of some simulations, of shape ``(n,)``; those are late that start after what their reservation promised."""

    size: IntArray
    node_s: FloatArray
    wait_s: FloatArray
    mode: IntArray
    late: BoolArray


def _placed(asked: Asked, piece: str) -> Placed:
    """Simulate the jobsets of a piece, by an agent with the first of its trainings."""
    kind, method = piece.split(": ")
    # FCFS with EASY as two-level scheduling, which says how jobs came to run; its schedules are the same.
    is_reference = method == REFERENCE
    scheduler = TwoLevelOrders("fcfs", "fcfs") if is_reference else schedulers(method, THETA, asked)[0]
    parts = []
    for jobs in jobsets_of(THETA, kind, asked):
        schedule = simulate(jobs, THETA.processors, scheduler)
        size, mode = schedule.workload.processors, np.full(len(jobs), int(Mode.READY))
        promised = np.full(len(jobs), np.inf)
        if isinstance(scheduler, TwoLevelOrders | AgentScheduler):
            mode, promised = scheduler.log.modes, scheduler.log.promised
        late = (mode == Mode.RESERVED) & (schedule.start > promised)
        parts.append(Placed(size, size * run_times(schedule), job_times(schedule).wait_s, mode, late))
    return Placed(*map(np.concatenate, zip(*parts, strict=True)))


def _keys(asked: Asked) -> list[str]:
    return [f"{kind}: {method}" for kind in JOBSETS for method in present(PAPER_METHODS, THETA, asked)]


def box_of(wait_s: FloatArray) -> Box:
    """Describe some waits; only their number where there are none."""
    if not len(wait_s):
        return {"n": 0}
    hours = wait_s / HOUR_S
    least, lower, median, upper, most = np.quantile(hours, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {
        "n": len(hours), "min": least, "q1": lower, "median": median, "q3": upper, "max": most,
        "mean": float(hours.mean()),
    }  # fmt: skip


def _boxes(records: Records) -> Iterator[Number]:
    """Yield the boxes of all classes that have jobs, beside the longest waits that the paper's text names."""
    for piece, record in records.items():
        for kind, box in record.items():
            longest = LONGEST_WAIT_H.get(piece.split(": ")[1]) if kind == ALL_SIZES else None
            for name in (name for name in box if name != "n"):
                published = longest if name == "max" else None
                yield Number(f"{piece}, {kind}", f"wait h, {name}", float(box[name]), published, int(box["n"]))


def _by_size(asked: Asked, piece: str) -> Record:
    jobs = _placed(asked, piece)
    boxes = {
        f"{fewest} to {end - 1} nodes": box_of(jobs.wait_s[(jobs.size >= fewest) & (jobs.size < end)])
        for fewest, end in pairwise((*THETA.classes, THETA.processors + 1))
    }
    return {ALL_SIZES: box_of(jobs.wait_s), **boxes}


def _by_mode(asked: Asked, piece: str) -> Record:
    jobs = _placed(asked, piece)
    return {mode.name.lower(): box_of(jobs.wait_s[jobs.mode == mode]) for mode in MODES}


EIGHT = Artifact(
    "dras-figure8", "Figure 8 of the DRAS paper: waits by size of job, on Theta", _keys, _by_size, _boxes, ("trained",)
)
NINE = Artifact(
    "dras-figure9", "Figure 9 of the DRAS paper: waits by mode, on Theta", _keys, _by_mode, _boxes, ("trained",)
)


def _shares(asked: Asked, piece: str) -> Record:
    """Return the shares of the modes in the number of jobs, in what all jobs held, and in what large jobs held."""
    jobs = _placed(asked, piece)
    large = jobs.size >= LARGE_SHARE * THETA.processors
    held, held_by_large = jobs.node_s.sum(), jobs.node_s[large].sum()
    shares = {}
    for mode in MODES:
        of = jobs.mode == mode
        shares[mode.name.lower()] = {
            "jobs": float(of.mean()),
            "core hours": float(jobs.node_s[of].sum() / held),
            "core hours of large jobs": float(jobs.node_s[of & large].sum() / held_by_large) if held_by_large else 0.0,
        }
    return {"jobs": len(jobs.size), "shares": shares, "late": int(jobs.late.sum())}


def _shares_beside(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        printed = TABLE_FOUR[piece.split(": ")[1]]
        for mode, shares in record["shares"].items():
            for column, share in shares.items():
                published = getattr(printed[mode], column.replace(" ", "_"), None)
                yield Number(piece, f"{mode}, {column} %", 100 * share, published, record["jobs"])
        yield Number(piece, "started after the promised time", float(record["late"]), None, record["jobs"])


TABLE = Artifact(
    "dras-table4",
    "Table 4 of the DRAS paper: shares of jobs and core hours by mode, on Theta",
    _keys,
    _shares,
    _shares_beside,
    ("trained",),
)
