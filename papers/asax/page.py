"""The ASAX paper's Tables 2 and 3 and its Figure 3 by simulation, beside what it prints."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.coallocation.interference import Interference
from allocopt.report.table import Cell, aligned_table
from allocopt.reproduction import ReproductionRequest, ReproductionRow
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.quota.window import CoallocationScheduler
from allocopt.traces.applications import CLUSTER_SIZES
from learned.asax.agent import Loss
from papers.asax.bound import bounds
from papers.asax.configuration import (
    BETWEEN_S,
    FULL_LOSS_AT,
    LESSONS,
    SEEDS,
    WALLTIME_FACTOR,
    learner,
    queue_of,
    simulated,
)
from papers.asax.tables import FIGURE_THREE, THREE, TWO
from papers.pages import claims_section, write_page

SEED = 1
"""Ten queues of seeds 10 .. 19: the expert table was written looking at other ones, of seeds 100 .. 104, 200 .. 214."""
SEQUENCES = 6
"""Learners that see queue after queue."""
FIRST_SEED = 30_000
LOSSES = {"limit": (Loss.LIMIT, 0.0), "degradation": (Loss.DEGRADATION, 0.0), "limit, idle counted": (Loss.LIMIT, 1.0)}
PARTS = {"queue 1": slice(0, 1), "queues 1 .. 7": slice(0, 7), "8 .. 14": slice(7, 14), "15 .. 20": slice(14, LESSONS)}
LAST = PARTS["15 .. 20"]
VIEWS = (THREE, TWO, FIGURE_THREE)


def updates(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return in how many queues a learner that begins with nothing set weights anew."""
    counts = [run["updates"] for cores in CLUSTER_SIZES for run in records[f"{cores}: asax"]["runs"]]
    return (
        f"`asax` set the weights of its experts anew 0 times in {counts.count(0)} of {len(counts)} queues, at most "
        f"{max(counts):g} in the others: its rows are those of the equal mixture, little of them is learned. Assumed, "
        f"for the paper prints neither: `paging = {Interference().paging:g}` is what memory beyond what there is "
        "costs, and a guest's peak of memory and mean use of cores are known before it runs."
    )


def learning(sequences: int) -> str:
    """Return how far a learner is from the exact model: a line for each cluster and loss."""
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        seeds = np.arange(FIRST_SEED, FIRST_SEED + sequences * LESSONS).reshape(sequences, LESSONS)
        exact = responses(cores, seeds, [[CoallocationScheduler("assignment")] * LESSONS] * sequences)
        for name, loss in LOSSES.items():
            going_on = [[learner(*loss)] * LESSONS for _ in range(sequences)]
            gaps = 100 * (responses(cores, seeds, going_on) / exact - 1)
            new = [[learner(*loss) for _ in range(LESSONS)] for _ in range(sequences)]
            fresh = 100 * (responses(cores, seeds[:, LAST], new) / exact[:, LAST] - 1)
            parts = [*(gaps[:, part] for part in PARTS.values()), fresh]
            lines.append([cores, name, *(f"{part.mean():.1f} ± {part.std() / part.size**0.5:.1f}" for part in parts)])
    header = ("cores", "loss", *PARTS, "the last ones, knowing nothing")
    return aligned_table(header, lines, (None,) * len(header))


def responses(cores: int, seeds: IntArray, schedulers: Sequence[Sequence[QuotaScheduler]]) -> FloatArray:
    """Return the mean responses of queues, each under its scheduler; a scheduler that comes again goes on learning."""

    def response_s(seed: int, scheduler: QuotaScheduler) -> float:
        return float(simulated(queue_of(seed, cores), cores, scheduler, seed).response_s.mean())

    pairs = zip(seeds.tolist(), schedulers, strict=True)
    return np.array([list(map(response_s, row, column)) for row, column in pairs])


def shown(value: float | None, spread: float | None = None) -> str:
    """Write a number, with its spread."""
    if value is None:
        return "-"
    return f"{value:.2f}" if spread is None else f"{value:.2f} ± {spread:.2f}"


def wide(rows: Sequence[ReproductionRow]) -> str:
    """One line for each place, one column for each number: ours, and the paper's in brackets where it prints one."""
    columns = list(dict.fromkeys(row.column for row in rows))
    places: dict[str, dict[str, ReproductionRow]] = {}
    for row in rows:
        places.setdefault(row.row, {})[row.column] = row
    lines: list[list[Cell]] = []
    for place, found in places.items():
        line: list[Cell] = [place]
        for column in columns:
            row_of = found.get(column)
            text = "-" if row_of is None else shown(row_of.ours, row_of.spread)
            if row_of is not None and row_of.published is not None:
                text += f" ({row_of.published:.3g})"
            line.append(text)
        lines.append(line)
    return aligned_table(["", *columns], lines, (None,) * (1 + len(columns)))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one queue a line; the page is not written")
    quick = parser.parse_args().quick
    request = ReproductionRequest(Path(), quick, (SEED,))
    records: Mapping[str, Mapping[str, Any]] = {piece: THREE.measure(request, piece) for piece in THREE.pieces(request)}
    sections = [f"## {view.title}\n\n{wide(view.rows(request, records))}" for view in VIEWS]
    sections = [claims_section("asax"), updates(records), *sections]
    sections += [
        "## How far utilization can rise\n\nA linear program: all work is done in allocations of one job, or of one "
        "and a guest, at the rates of the execution model, the memory heeded; which stages meet and when is "
        "free, jobs may be interrupted, and no order is kept. So no scheduler with one guest a host gets further. The "
        "makespan is also at least that of the job that would end last alone.\n\n"
        f"{bounds(range(SEED * SEEDS, SEED * SEEDS + (1 if quick else SEEDS)))}",
        "## Learning over the queues\n\nMean response over that of the exact model, +%, while a learner sees "
        f"{LESSONS} queues one after the other; mean ± standard error over {1 if quick else SEQUENCES} such sequences "
        "of their own seeds. The last column is of the queues of the one before it, by learners that know nothing.\n\n"
        f"{learning(1 if quick else SEQUENCES)}",
    ]
    if quick:
        print("\n\n".join(sections))
        return
    write_page(
        "asax",
        "The ASAX paper's tables, done again",
        f"The queue of 45 jobs on 64, 128 and 256 cores, {SEEDS} queues (seeds {SEEDS * SEED} .. "
        f"{SEEDS * SEED + SEEDS - 1}), mean ± standard deviation, the paper's value in brackets. Submissions are "
        f"{BETWEEN_S:g} s apart on average, limits {WALLTIME_FACTOR:g} times the run time alone, the loss is full at "
        f"{FULL_LOSS_AT:g} of the limit beyond it. `asax` begins every queue knowing nothing, `asax, trained` after "
        f"{LESSONS} other queues. Its loss is how far the host passes its limit, under *degradation* how much longer "
        "its work takes, and under *idle counted* a refusal also loses what stays idle. Jobs follow the lines of Table "
        "2 for their cluster. `static-50` gives half to whoever has the cores, `static-50-memory` also looks at "
        "the memory. `coallocation-scip` knows all profiles and solves a window whenever something happens. CPU % is "
        "of the cluster, *of allotted* of what the quotas entitle to, as in the paper's Table 2.",
        sections,
    )


if __name__ == "__main__":
    main()
