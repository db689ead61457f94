"""Relocations of 256 to 100,000 nodes: share proved, milliseconds, and what rules of production stop beside it."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import allocopt
from allocopt.cluster.options import FatTreeOptions
from allocopt.problems.relocation.generate import synthetic_relocation
from allocopt.problems.relocation.problem import RelocationProblem, WaitingGang
from allocopt.report.words import Cell, aligned_table
from allocopt.solving.result import Result, Status
from allocopt.traces.variants import Interval
from papers.pages import page_parser, write_page

INSTANCES = 20
SIZE = 16  # nodes of a gang in a rack, or of a segment
LIMIT_S = 60.0
RULES = ("cheapest-first", "best-rack")
REFERENCE = "auto"


def tree(nodes: int, rack: int) -> FatTreeOptions:
    """Return racks of so many nodes, at least as many nodes as asked for, in one pod."""
    return FatTreeOptions(pods=1, leaves_per_pod=-(-nodes // rack), nodes_per_leaf=rack)


@dataclass(frozen=True)
class Family:
    """Instances of one kind and size."""

    name: str
    nodes: int
    rack: int
    options: dict[str, Any] = field(default_factory=dict)
    # Gangs beside those of the generator: segments of nodes in racks, and how many of them.
    more: tuple[tuple[int, int], ...] = ()

    def problem(self, seed: int) -> RelocationProblem:
        """Draw one."""
        rng = np.random.default_rng((seed, self.nodes))
        made = synthetic_relocation(
            f"{self.name}-{self.nodes}-{seed}", rng, tree(self.nodes, self.rack), **{"size": SIZE, **self.options}
        )
        asked = made.waiting[0].request if made.waiting else None
        gangs = list(made.waiting)
        for number, (size, segments) in enumerate(self.more if asked is not None else ()):
            assert asked is not None
            shape = asked._replace(
                tasks=size * segments,
                least_nodes=size * segments,
                most_nodes=size * segments,
                most_groups=(0,) * len(asked.most_groups),
                segments=(size, *(0,) * (len(asked.most_groups) - 1)),
            )
            gangs.append(WaitingGang(f"more{number}", shape))
        return replace(made, waiting=tuple(gangs))


RACKS = ((594, 18), (1024, 16), (5004, 18), (10_000, 16), (100_000, 16))
FAMILIES = (
    *(Family("one gang in a rack", nodes, rack) for nodes, rack in RACKS),
    *(Family("mixed gangs", nodes, rack, {"gangs": 2, "costs": "work"}, ((8, 3), (4, 6))) for nodes, rack in RACKS[:4]),
    *(
        Family("two racks free, jobs move", nodes, 16, {"movable": 1.0, "compact": True, "load": 0.85, "segments": 2})
        for nodes in (256, 1024)
    ),
    Family("four nodes to be emptied", 1024, 16, {"gangs": 0, "drained": 4, "movable": 1.0, "fixed": 0.0, "load": 0.9}),
)
IMPOSSIBLE = tuple(Family("no victims help", nodes, rack, {"fixed": 0.9, "segments": 20}) for nodes, rack in RACKS[:4])


@dataclass(frozen=True, slots=True)
class Solved:
    """An answer and the milliseconds that it took, verification included."""

    result: Result
    ms: float

    @classmethod
    def by(cls, solver: str, problem: RelocationProblem) -> "Solved":
        """Solve a problem."""
        started = time.perf_counter()
        result = allocopt.solve(problem, solver=solver, time_limit=LIMIT_S)
        return cls(result, 1e3 * (time.perf_counter() - started))


def row_of(family: Family) -> list[Cell]:
    """Solve the instances of a family; return its row."""
    problems = [family.problem(seed) for seed in range(INSTANCES)]
    exact = [Solved.by(REFERENCE, problem) for problem in problems]
    feasible = [at for at, one in enumerate(exact) if one.result.objective is not None]
    proved = sum(one.result.status in (Status.OPTIMAL, Status.INFEASIBLE) for one in exact)
    ms = [one.ms for one in exact]
    row: list[Cell] = [
        family.name,
        family.nodes,
        float(np.mean([len(problem.running) for problem in problems])),
        f"{proved} of {INSTANCES}",
        float(np.median(ms)),
        max(ms),
        float(np.mean([exact[at].result.objective or 0.0 for at in feasible])) if feasible else None,
    ]
    for rule in RULES:
        answers = [Solved.by(rule, problems[at]) for at in feasible]
        found = [
            (float(one.result.objective), float(exact[at].result.objective or 0.0))
            for at, one in zip(feasible, answers, strict=True)
            if one.result.objective is not None
        ]
        more = [100.0 * (mine - best) / best for mine, best in found if best > 0]
        told = "-"
        if len(more) > 1:
            interval = Interval.of(np.array(more))
            told = f"{interval.mean:+.1f} ({interval.low:+.1f} .. {interval.high:+.1f})"
        row += [told, len(feasible) - len(found)]
    return row


HEADER = (
    *("instances", "nodes", "jobs", "proved", "ms", "max ms", "cost"),
    *(column for rule in RULES for column in (f"{rule}: cost more, %", "without an answer")),
)
DIGITS = (None, 0, 0, None, 0, 0, 1, None, 0, None, 0)


def main() -> None:
    page_parser(__doc__).parse_args()
    # The child process of the back end starts before anything is measured.
    Solved.by(REFERENCE, FAMILIES[0].problem(INSTANCES))
    rows = [row_of(family) for family in FAMILIES]
    impossible = [row_of(family) for family in IMPOSSIBLE]
    write_page(
        "relocations",
        "Fewest stopped and moved jobs",
        "The table says how many relocations are proved, in how many milliseconds, and by how much the rules of "
        "production cost more.",
        [
            "## Victims, moves and drains",
            aligned_table(HEADER, rows, DIGITS),
            "## Where no victims help",
            aligned_table(HEADER[:6], [row[:6] for row in impossible], DIGITS[:6]),
        ],
        f"{INSTANCES} instances of each row, of `allocopt generate relocation`: nodes of eight GPUs in racks, running "
        "jobs of 1 to 16 nodes on nodes that follow each other, on 95 % of the nodes, a third of which must not stop; "
        "a stop costs as many as the job has nodes, a move half of that. *One gang in a rack*: 16 nodes. *Mixed "
        "gangs*: two such, one of three segments of 8 and one of six of 4, and a stop costs nodes times hours. *Two "
        "racks free*: 85 % of the nodes are in use, all jobs that may stop may move, and stay within a rack. *Four "
        "nodes to be emptied*: all jobs may stop and move. *No victims help*: nine of ten jobs must not stop. Times "
        f"are wall clock of `allocopt.solve` by `{REFERENCE}` with verification, median and most. *Cost more* is the "
        f"mean with its 95 % interval over the instances that the rule answers, beside the answer of `{REFERENCE}`.",
    )


if __name__ == "__main__":
    main()
