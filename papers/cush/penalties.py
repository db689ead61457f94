"""The baselines of both machines under several tables of penalties, compared with Table 1."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.envs.cush.jobsets import HELD_OUT, MACHINES, Machine, Recipe
from allocopt.reproduction import Records
from allocopt.simulator.locality import SHARE, SIERRA_TABLE, Line, PenaltyTable, Policy, WorkloadType
from papers.artifact import Artifact, Asked, Number, Record
from papers.cush.configuration import BASELINES, CUSH, QUICK_SETS, TABLE_ONE, Outcomes, of_baseline

COLUMNS = ("NTAT", "wait", "rewards")
METHODS = {method: method for method in BASELINES} | {"sjf, oracle": CUSH}
"""Our methods, and the paper's row of each; CuSH resembles SJF with the right policies (Figure 5)."""
PRINTED = np.array(
    [[[TABLE_ONE[f"{name}: {row}"][column] for column in COLUMNS] for row in METHODS.values()] for name in MACHINES]
)
"""The values of Table 1, shape ``(machines, methods, columns)``."""
BOTH = tuple(MACHINES)


@dataclass(frozen=True)
class Penalties:
    """A locality model of drawn jobsets, and the reading of NTAT."""

    share: float  # largest request, as a share of the cluster
    table: PenaltyTable
    over_requested: bool = True  # whether NTAT is relative to the requested time, not to the service time
    machines: tuple[str, ...] = BOTH  # machines for which it was fitted

    def means(self, seeds: Sequence[int]) -> FloatArray:
        """Return NTAT, waits and rewards on jobsets of these seeds, shape ``(machines, methods, columns)``."""
        found = []
        for name in self.machines:
            machine = Machine.of(name)
            jobsets = Recipe(share=self.share).draw_each(machine, self.table, seeds)
            runs = [of_baseline(jobsets, machine, method) for method in METHODS]
            found.append([[self._ntat(run), run.mean("wait"), run.mean("rewards")] for run in runs])
        return np.array(found)

    @property
    def printed(self) -> FloatArray:
        """The values of Table 1 for its machines, in the shape of `means`."""
        return np.asarray(PRINTED[[BOTH.index(name) for name in self.machines]])

    def _ntat(self, run: Outcomes) -> float:
        return float((run.turnaround if self.over_requested else run.over_service).mean())


def steps(values: FloatArray) -> FloatArray:
    """Return the logarithm of breadth-first over depth-first, for each machine, rule and column."""
    baselines = values[:, : len(BASELINES)]
    return np.asarray(np.log(baselines[:, 1::2] / baselines[:, ::2]))


def _lines(*numbers: float) -> PenaltyTable:
    """Return a table from base and slope of each line, by type and policy."""
    keys = product((WorkloadType.COMPUTE, WorkloadType.NETWORK), Policy)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return PenaltyTable({key: Line(*pair) for key, pair in zip(keys, pairs, strict=True)})


SHIPPED = "shipped"
EARLIER = _lines(0.05, 0.0001, 12.0, 0.042, 12.5, 0.002, 1.9, 0.0005)
"""Fitted only to the order of Sierra's NTAT, not to waits and rewards."""
OF_SERVICE = _lines(0.0142, 0.0003, 1.1042, 0.0107, 1.4722, 0.0089, 0.1271, 0.0005)
"""Result of the same search as for the shipped table, with NTAT relative to the service time."""
OF_SIERRA = _lines(0.2445, 0.0004, 1.4642, 0.0076, 7.1744, 0.0036, 0.9602, 0.0002)
OF_SUMMIT = _lines(0.3743, 0.0002, 3.5384, 0.0039, 2.9255, 0.0076, 0.7047, 0.0008)
"""Results of the search for a single machine."""
TABLES = {
    SHIPPED: Penalties(SHARE, SIERRA_TABLE),
    "shipped, NTAT over service": Penalties(SHARE, SIERRA_TABLE, over_requested=False),
    "fitted to Sierra alone": Penalties(0.437, OF_SIERRA, machines=("sierra",)),
    "fitted to Summit alone": Penalties(0.481, OF_SUMMIT, machines=("summit",)),
    "no penalties": Penalties(0.525, _lines(*[0.0] * 8)),
    "fitted, NTAT over service": Penalties(0.494, OF_SERVICE, over_requested=False),
    "for the order of Sierra's NTAT over service": Penalties(0.7, EARLIER, over_requested=False),
}
"""Tables that are compared."""
RATIO_TO_WAIT = "(NTAT - 1) / wait"


def _record(asked: Asked, name: str) -> Record:
    seeds = range(HELD_OUT, HELD_OUT + asked.size(QUICK_SETS * 5, QUICK_SETS))
    return {"means": TABLES[name].means(seeds).tolist(), "sets": float(len(seeds))}


def _numbers(records: Records) -> Iterator[Number]:
    """Yield errors, the number of pairs that are ordered as printed, and the range of a ratio that limits any fit."""
    for name, record in records.items():
        values, sets, paper = np.array(record["means"]), int(record["sets"]), TABLES[name].printed
        errors = np.abs(np.log(values / paper))
        for place, column in enumerate(COLUMNS):
            yield Number(name, f"largest error of {column}", float(errors[..., place].max()), None, sets)
        yield Number(name, "mean error", float(errors.mean()), None, sets)
        alike = steps(values) * steps(paper) > 0
        yield Number(name, "pairs as printed", float(alike.sum()), float(alike.size), sets)
        ratios, printed = ((of[:, : len(BASELINES), 0] - 1) / of[:, : len(BASELINES), 1] for of in (values, paper))
        yield Number(name, f"least {RATIO_TO_WAIT}", float(ratios.min()), float(printed.min()), sets)
        yield Number(name, f"most {RATIO_TO_WAIT}", float(ratios.max()), float(printed.max()), sets)


PENALTIES = Artifact(
    "cush-penalties",
    "Tables of penalties against Table 1 of the CuSH paper: errors, orders, and limits of any table",
    lambda asked: list(TABLES),
    _record,
    _numbers,
    (),
)
