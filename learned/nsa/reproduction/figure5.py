"""Figure 5: NSA with six networks and six numbers of steps against SA with twice as many steps.

The figure prints one number, that NSA-500 with FCN-1 costs 0.27 % more than SA-1000; the others are bars.
"""

from statistics import fmean, stdev
from typing import Any

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from heuristics.topology.annealing import Annealing, AnnealingAsPublished
from learned.nsa.networks import NETWORKS
from learned.nsa.reproduction.epochs import (
    LEADER,
    Method,
    Tally,
    epoch_keys,
    improvement,
    nsa_500,
    solve_all,
    solved_windows,
)
from learned.nsa.solver import Nsa

NAME = "nsa-figure5"
STEPS, QUICK_STEPS = (500, 600, 700, 800, 900, 1000), (500, 1000)
PRINTED_IMPROVEMENT = {("fcn-1", 500): -0.27, ("cnn-3", 500): 1.34}
RANDOM = "random repair"


class FigureFiveReproduction:
    """Figure 5 of the NSA paper."""

    name = NAME
    title = "Figure 5 of the NSA paper: six networks and 500 to 1000 steps, against SA with twice as many"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the epochs."""
        return epoch_keys(request)

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Solve the windows of an epoch with every network and number of steps."""
        methods, tally = figure_methods(_steps(request)), Tally()
        for problem, answers in solved_windows(request, piece, lambda window, seed: solve_all(methods, window, seed)):
            tally.add(problem, answers)
        return tally.record()

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return costs and improvements, a row per number of steps."""
        rows = []
        n = sum(record["windows"] for record in records.values())
        for steps in _steps(request):
            for network in (*NETWORKS, RANDOM):
                label = f"{network} NSA-{steps}"
                improvements = [improvement(record["cost"], label, f"SA-{2 * steps}") for record in records.values()]
                published = PRINTED_IMPROVEMENT.get((network, steps))
                rows.append(_row(steps, f"{network} Impr. % on SA-{2 * steps}", published, improvements, n))
                for measure in ("cost", "ms"):
                    values = [record[measure][label] for record in records.values()]
                    rows.append(_row(steps, f"{network} {measure}", None, values, n))
            for measure in ("cost", "ms"):
                values = [record[measure][f"SA-{2 * steps}"] for record in records.values()]
                rows.append(_row(steps, f"SA-{2 * steps} {measure}", None, values, n))
        return rows


def figure_methods(every_steps: tuple[int, ...]) -> dict[str, Method]:
    """Methods by name; beside the networks the same walk with random repair."""
    proper = Annealing(hottest=2.5, coldest=0.0025, most_removed=2)
    methods = {LEADER: nsa_500()}
    for steps in every_steps:
        methods[f"SA-{2 * steps}"] = Method(AnnealingAsPublished(), "free", 2 * steps)
        methods[f"{RANDOM} NSA-{steps}"] = Method(proper, "dcas", steps)
        for network in NETWORKS:
            methods[f"{network} NSA-{steps}"] = Method(Nsa(network), "free", steps)
    return methods


def _steps(request: ReproductionRequest) -> tuple[int, ...]:
    """Return the numbers of steps."""
    return QUICK_STEPS if request.is_quick else STEPS


def _row(steps: int, column: str, published: float | None, values: list[float], n: int) -> ReproductionRow:
    """Return mean and standard deviation over the epochs."""
    spread = stdev(values) if len(values) > 1 else None
    return ReproductionRow(NAME, f"{steps} steps", column, published, fmean(values), spread, n)
