"""Numbers of certified bounds, by kind, strategy and solver, and times of the checks and of the solves."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import allocopt
from allocopt.cluster.options import FatTreeOptions
from allocopt.errors import InvalidSolutionError
from allocopt.problems.base import Problem
from allocopt.problems.certificate import Stated
from allocopt.problems.kind import kind_of
from allocopt.problems.placement.generate import synthetic_placement
from allocopt.report.words import Cell, aligned_table
from allocopt.solving.certify import check_bound
from papers.pages import page_parser, write_page

LIMIT_S = 10.0
FILES = ("paper.jsonl", "burst.jsonl", "knapsacks.jsonl", "coallocations.jsonl")
# These solvers use their whole time limit without a proof.
LEFT_OUT = ("nsa", "annealing-as-published", "simanneal", "scip-paper", "csp")
PLACEMENTS = ((12, FatTreeOptions(2, 2, 4)), (24, FatTreeOptions(3, 3, 5)), (100, FatTreeOptions(5, 10, 10)))


@dataclass
class Bounds:
    """Bounds of one solver on problems of one kind and strategy."""

    claimed: int = 0
    optimal: int = 0
    stated: int = 0  # by another program
    certified: int = 0  # by `solve` itself
    proved: int = 0  # by a check without a limit
    check_s: list[float] = field(default_factory=list)
    solve_s: list[float] = field(default_factory=list)

    def add(self, problem: Problem, result: allocopt.Result) -> None:
        """Count a result, and check its bound without a time limit."""
        if result.bound is None or result.certificate is None:
            return
        self.claimed += 1
        self.optimal += result.status is allocopt.Status.OPTIMAL
        self.certified += result.is_certified
        self.solve_s.append(result.runtime_s)
        if isinstance(result.certificate, Stated):
            self.stated += 1
        elif math.isfinite(result.certificate.seconds(problem)):
            try:
                self.check_s.append(check_bound(problem, result.certificate, result.bound))
                self.proved += 1
            except InvalidSolutionError as error:
                # The second search gives up if it meets too many states.
                if "too large" not in str(error):
                    raise

    def cells(self) -> list[Cell]:
        """Return the counts and times of a row."""
        checks, solves = 1e3 * np.array(self.check_s), 1e3 * np.array(self.solve_s)
        times: list[Cell] = ["-", "-"]
        if len(checks):
            times = [float(np.median(checks)), float(checks.max())]
        return [
            *(self.claimed, self.optimal, self.stated, self.certified, self.proved),
            *times,
            *(float(np.median(solves)), float(solves.max())),
        ]


def problems(count: int) -> Iterator[Problem]:
    """Yield problems of all kinds under all strategies."""
    for name in FILES:
        for problem in allocopt.read_problems(f"instances/{name}")[:count]:
            strategies = kind_of(problem).strategies
            yield from (kind_of(problem).posed(problem, strategy) for strategy in strategies or (None,))
    for jobs, tree in PLACEMENTS:
        for rng in np.random.default_rng(43).spawn(count):
            yield synthetic_placement("shared", rng, jobs, 0.5, 0.3, tree)


def bounds(count: int) -> dict[tuple[str, str, str], Bounds]:
    """Return the counts by kind, strategy and solver."""
    found: dict[tuple[str, str, str], Bounds] = defaultdict(Bounds)
    for problem in problems(count):
        kind = kind_of(problem)
        for name in allocopt.solver_names(kind.name):
            solver = allocopt.get_solver(name, None, kind.name)
            if name in LEFT_OUT or not solver.is_available() or not solver.takes(problem) or solver.refusal(problem):
                continue
            result: allocopt.Result = allocopt.solve(problem, solver=solver, time_limit=LIMIT_S, seed=0)
            found[kind.name, kind.strategy_of(problem) or "-", name].add(problem, result)
    return found


def main() -> None:
    arguments = page_parser(__doc__, "few problems").parse_args()
    found = bounds(2 if arguments.quick else 10)
    rows: list[list[Cell]] = [[*key, *one.cells()] for key, one in sorted(found.items()) if one.claimed]
    header = ("kind", "strategy", "solver", "bounds", "optimal", "stated", "certified", "with --certify")
    times = ("check ms", "check max", "solve ms", "solve max")
    table = aligned_table((*header, *times), rows, (None, None, None, *(0 for _ in header[3:]), 2, 2, 2, 2))
    own = [one for (_, _, name), one in found.items() if one.claimed > one.stated]
    claimed = sum(one.claimed - one.stated for one in own)
    certified, proved = sum(one.certified for one in own), sum(one.proved for one in own)
    checks = 1e3 * np.concatenate([one.check_s for one in own])
    write_page(
        "certificates",
        "Certified bounds",
        f"`solve` proves {100 * certified / claimed:.0f} % of {claimed:,} bounds with a certificate by default, and "
        f"{100 * proved / claimed:.0f} % with `--certify`. A check takes {np.median(checks):.1f} ms (median), "
        f"{checks.max():,.0f} ms at most. No certificate proved less than its solver stated.",
        [table],
        "All solvers, on windows of `instances/` and on random windows of shared nodes, with a limit of "
        f"{LIMIT_S:g} s. *stated*: bounds of SCIP, HiGHS or CP-SAT, which give no proof. *certified*: proved by "
        "`solve`, whose check may take a tenth of the solve, or 2 ms for an optimum. *with --certify*: proved by a "
        "check without a limit; the rest would need a search that is too large to repeat. Times are medians and "
        "maxima.",
        is_quick=arguments.quick,
    )


if __name__ == "__main__":
    main()
