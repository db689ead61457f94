"""Relocations on 594 to 100,000 nodes: share of proofs, milliseconds, and excess cost of production rules."""

import itertools
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import allocopt
from allocopt.cluster.options import FatTreeOptions
from allocopt.problems.relocation.generate import synthetic_relocation
from allocopt.problems.relocation.problem import RelocationProblem, WaitingGang
from allocopt.report.provenance import provenance
from allocopt.report.words import Cell, aligned_table
from allocopt.solving.result import Status
from allocopt.traces.variants import Interval
from papers.pages import listed_commits, write_page
from papers.row_files import append_row, rows_in

INSTANCES = 20  # of a row
LIMIT_S = 60.0
REFERENCE = "auto"
PRODUCTION = ("cheapest-first", "slurm-preempt", "kai-reclaim", "volcano-gangpreempt")
RULES = ("best-rack", *PRODUCTION)
RACKS = {594: 18, 1024: 16, 5004: 18, 10_000: 16, 100_000: 16}  # nodes of a rack, by nodes of the cluster
GANG, MIXED, MOVES, DRAIN, HOPELESS = (
    "one gang in a rack",
    "mixed gangs",
    "two racks free, jobs move",
    "four nodes to be emptied",
    "no victims help",
)


@dataclass(frozen=True)
class Family:
    """Instances of one kind: the options of the generator, and a function that then changes the gangs."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    regang: Callable[[RelocationProblem, int, np.random.Generator], RelocationProblem] | None = None

    def problem(self, nodes: int, seed: int) -> RelocationProblem:
        """Draw an instance on racks in one pod, with at least ``nodes`` nodes."""
        rack, rng = RACKS[nodes], np.random.default_rng((seed, nodes))
        tree = FatTreeOptions(pods=1, leaves_per_pod=-(-nodes // rack), nodes_per_leaf=rack)
        name = f"{self.name}-{nodes}-{seed}"
        made = synthetic_relocation(name, rng, tree, **{"size": 16, **self.options})
        return made if self.regang is None else self.regang(made, rack, rng)


def mixed_gangs(problem: RelocationProblem, rack: int, rng: np.random.Generator) -> RelocationProblem:
    """Return a problem with four gangs: in a rack, of segments of 8 and of 4 nodes, and in at most two racks."""
    asked = problem.waiting[0].request
    above = (0,) * (len(asked.most_groups) - 1)
    # Nodes, most racks, and nodes of a segment; 0 for no limit.
    drawn = (
        (int(rng.integers(8, rack + 1)), 1, 0),
        (8 * int(rng.integers(2, 5)), 0, 8),
        (4 * int(rng.integers(3, 9)), 0, 4),
        (int(rng.integers(rack + 2, 2 * rack - 3)), 2, 0),
    )
    gangs = []
    for number, (nodes, racks, segment) in enumerate(drawn, 1):
        shape = asked._replace(
            tasks=nodes,
            least_nodes=nodes,
            most_nodes=nodes,
            most_groups=(racks, *above),
            segments=(segment, *above) if segment else (),
        )
        gangs.append(WaitingGang(f"g{number}", shape))
    return replace(problem, waiting=tuple(gangs))


FAMILIES = (
    Family(GANG),
    Family(MIXED, {"load": 0.97, "shared": 0.1, "large": 0.05, "size": 8}, mixed_gangs),
    Family(MOVES, {"movable": 1.0, "compact": True, "load": 0.85, "segments": 2}),
    Family(DRAIN, {"gangs": 0, "drained": 4, "movable": 1.0, "fixed": 0.0, "load": 0.9}),
    Family(HOPELESS, {"fixed": 0.9, "segments": 20}),
)


class Row(NamedTuple):
    """The answer of a solver on one instance; milliseconds include the verification."""

    family: str
    nodes: int
    seed: int
    solver: str
    jobs: int
    status: str
    cost: float | None
    ms: float
    commit: str

    @classmethod
    def of(cls, family: Family, nodes: int, seed: int, solver: str) -> "Row":
        """Solve an instance."""
        problem = family.problem(nodes, seed)
        started = time.perf_counter()
        result = allocopt.solve(problem, solver=solver, time_limit=LIMIT_S)
        ms, jobs = 1e3 * (time.perf_counter() - started), len(problem.running)
        status, commit = str(result.status), provenance()["commit"]
        return cls(family.name, nodes, seed, solver, jobs, status, result.objective, ms, commit)

    @property
    def is_proved(self) -> bool:
        """Whether the answer is proved, or proved not to exist."""
        return self.status in (Status.OPTIMAL, Status.INFEASIBLE)


def fill(rows: Path, solvers: Sequence[str], sizes: Sequence[int]) -> None:
    """Measure the rows that a file does not have yet, and append each when it is known."""
    known = {row[:4] for row in rows_in(rows, Row)}
    # The child process of the back end starts before anything is measured.
    Row.of(FAMILIES[0], min(RACKS), INSTANCES, REFERENCE)
    for family, nodes, solver in itertools.product(FAMILIES, sizes, solvers):
        for seed in range(INSTANCES):
            if (family.name, nodes, seed, solver) not in known:
                append_row(rows, Row.of(family, nodes, seed, solver))


@dataclass(frozen=True, slots=True)
class Measured:
    """The instances of a family and size, solved by the reference and by the rules, by seed."""

    family: str
    nodes: int
    exact: Mapping[int, Row]
    by_rule: Mapping[str, Mapping[int, Row]]

    @classmethod
    def all_of(cls, rows: Sequence[Row]) -> "list[Measured]":
        """Return the families and sizes for which there are rows of the reference."""
        found: dict[tuple[str, int, str], dict[int, Row]] = {}
        for row in rows:
            found.setdefault((row.family, row.nodes, row.solver), {})[row.seed] = row
        return [
            cls(
                family.name,
                nodes,
                found[family.name, nodes, REFERENCE],
                {rule: found.get((family.name, nodes, rule), {}) for rule in RULES},
            )
            for family, nodes in itertools.product(FAMILIES, RACKS)
            if (family.name, nodes, REFERENCE) in found
        ]

    @property
    def ms(self) -> list[float]:
        """Milliseconds of the reference."""
        return [row.ms for row in self.exact.values()]

    @property
    def has_answers(self) -> bool:
        """Whether the reference has found any answer."""
        return any(row.cost is not None for row in self.exact.values())

    def more(self, rule: str) -> list[float]:
        """Return the excess cost of a rule in per cent, over the instances that both answer."""
        pairs = ((mine.cost, best.cost) for mine, best in self._pairs(rule))
        return [100.0 * (mine / best - 1.0) for mine, best in pairs if mine is not None and best]

    def unanswered(self, rule: str) -> int:
        """Return the number of instances that the reference answers and a rule does not."""
        return sum(mine.cost is None and best.cost is not None for mine, best in self._pairs(rule))

    def _pairs(self, rule: str) -> list[tuple[Row, Row]]:
        return [(mine, self.exact[seed]) for seed, mine in self.by_rule[rule].items() if seed in self.exact]

    def proof_row(self) -> list[Cell]:
        """Return the row of the table of proofs."""
        rows = list(self.exact.values())
        costs = [row.cost for row in rows if row.cost is not None]
        return [
            self.family,
            self.nodes,
            float(np.mean([row.jobs for row in rows])),
            f"{sum(row.is_proved for row in rows)} of {len(rows)}",
            float(np.median(self.ms)),
            max(self.ms),
            float(np.mean(costs)) if costs else None,
        ]

    def rule_row(self) -> list[Cell]:
        """Return the row of the table of rules."""
        return [self.family, self.nodes, *(self._cell(rule) for rule in RULES)]

    def _cell(self, rule: str) -> str:
        more, missing = self.more(rule), self.unanswered(rule)
        told = "-"
        if len(more) > 1:
            interval = Interval.of(np.array(more))
            told = f"{interval.mean:+.1f} ({interval.low:+.1f} .. {interval.high:+.1f})"
        return f"{told}; {missing} without" if missing else told


def claim(rows: Sequence[Measured]) -> str:
    """Return the goals for the rows, and the numbers that were reached."""
    told = []
    for row in rows:
        if row.family in (GANG, MIXED) and row.nodes == 10_000:
            proved = sum(one.is_proved for one in row.exact.values())
            told.append(
                f"{row.family.capitalize()}, 10,000 nodes: the optimum is proved in {np.median(row.ms):,.0f} ms "
                f"(median; asked: 300), {proved} of {len(row.exact)} within {LIMIT_S:g} s."
            )
    means = {
        rule: [float(np.mean(row.more(rule))) for row in rows if row.family == MIXED and row.more(rule)]
        for rule in RULES
    }
    ranges = [f"`{rule}` {min(found):.0f} to {max(found):.0f} %" for rule, found in means.items() if found]
    told.append(f"On mixed gangs rules stop more nodes (asked: 10 %), by the size of the cluster: {', '.join(ranges)}.")
    silent = [f"`{rule}`" for rule, found in means.items() if not found]
    if silent:
        told.append(f"There {' and '.join(silent)} found no answer.")
    return " ".join(told)


def assumed() -> str:
    """Return a description of the instances of each row, and of the measurement."""
    return (
        f"{INSTANCES} instances of each row, of `allocopt generate relocation`, seeds 0 to {INSTANCES - 1}. Nodes "
        "of eight GPUs in racks of 16 or 18, running jobs of 1 to 16 consecutive nodes on 95 % of the nodes, a "
        "third of which must not stop. The cost of a stop is the number of the job's nodes, or its share of the "
        f"GPUs of a shared node; a move costs half of that. *{GANG.capitalize()}*: 16 nodes. "
        f"*{MIXED.capitalize()}*: four gangs at once, of 8 nodes up to a rack within one, of 2 to 4 segments of 8 "
        "nodes, of 3 to 8 segments of 4, and of more than a rack within at most two; 97 % of the nodes are in "
        "use, jobs share a tenth of the nodes, and one in twenty of the others has 32 or 64 nodes. "
        f"*{MOVES.capitalize()}*: 16 nodes of each, 85 % of the nodes are in use, all jobs that may stop may move, "
        f"those that fit a rack within one. *{DRAIN.capitalize()}*: 90 % are in use, all jobs may stop and move. "
        f"*{HOPELESS.capitalize()}*: a gang of 20 segments of 16 nodes, and nine of ten jobs must not stop. Times "
        f"are wall clock of `allocopt.solve` by `{REFERENCE}` with verification, median and most, of at most "
        f"{LIMIT_S:g} s. The excess cost of a rule is the mean with its 95 % interval over the instances that the "
        f"rule answers, relative to the answer of `{REFERENCE}`, proved or not; *without* counts those that it "
        "does not answer. [relocation.md](../relocation.md) lists the product of each rule. `volcano-preempt` "
        "does not start gangs that are bound to racks, and is left out."
    )


PROOFS = ("instances", "nodes", "jobs", "proved", "ms", "max ms", "cost")


def main() -> None:
    """Measure the rows that a file does not have yet, and write the page of all its rows."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="append rows to this file; rows that it has are not measured again")
    parser.add_argument("--nodes", type=int, nargs="*", choices=RACKS, default=list(RACKS), help="measure these sizes")
    parser.add_argument(
        "--solvers", nargs="*", choices=(REFERENCE, *RULES), default=[REFERENCE, *RULES], help="measure these solvers"
    )
    parser.add_argument("--page", action="store_true", help="write the page; without it, it is printed")
    asked = parser.parse_args()
    fill(asked.rows, asked.solvers, asked.nodes)
    read = rows_in(asked.rows, Row)
    rows = Measured.all_of(read)
    write_page(
        "relocations",
        "Fewest stopped and moved jobs",
        claim(rows),
        [
            f"## Proofs\n\n{aligned_table(PROOFS, [row.proof_row() for row in rows], (None, 0, 0, None, 0, 0, 1))}",
            "## What the rules cost more, in %\n\n"
            + aligned_table(
                ("instances", "nodes", *RULES),
                [row.rule_row() for row in rows if row.has_answers],
                (None, 0, *(None for _ in RULES)),
            ),
        ],
        f"{assumed()} Rows were measured at {listed_commits(row.commit for row in read)}.",
        is_quick=not asked.page,
    )


if __name__ == "__main__":
    main()
