"""Solver ``dp``: SCAS (`scas`) and DCAS (`dcas`, see ``docs/dcas.md``) to proof by dynamic programming."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.encoding import sequential_allocation
from allocopt.problems.topology.tables import BLOCK_KERNELS, blocks_of
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Budget
from allocopt.topology import TopologySolver
from formulations.topology.dcas.search import DCAS_KERNELS, dcas_refusal, search_dcas
from formulations.topology.scas import Circle, fill_positions, number_of_multisets

LARGEST_TABLE = 10_000_000
MANY_JOBS = 9  # DCAS begins with the SCAS optimum from so many jobs on: with less it is found sooner without


@dataclass(frozen=True, slots=True)
class DynamicProgram(TopologySolver):
    """Exact SCAS and DCAS; SCAS takes O(m S R) per case for S multisets of R distinct sizes."""

    name: ClassVar[str] = "dp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.SCAS, Strategy.DCAS}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_TABLE:,} table entries: (idle nodes + 1) x product over sizes of (jobs of the size + 1); "
        "for dcas two levels of switches below the top, the idle nodes of each consecutive",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        entries = (len(problem.idle_nodes) + 1) * number_of_multisets(problem.sizes)
        if entries > LARGEST_TABLE:
            return f"its tables would have {rounded(entries)} entries, the largest taken are {LARGEST_TABLE:,}"
        return dcas_refusal(problem) if problem.strategy is Strategy.DCAS else None

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        scas = (*BLOCK_KERNELS, fill_positions)
        return scas if problem.strategy is Strategy.SCAS else (*scas, *DCAS_KERNELS)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Place all jobs on the circle at the least cost; see `TopologySolver.search`."""
        run.offer(sequential_allocation(problem))
        if problem.strategy is Strategy.DCAS:
            if len(problem.jobs) >= MANY_JOBS:
                # The SCAS optimum, or what is found in a quarter of the time.
                left = run.clock.remaining()
                quarter = Budget(max(left / 4, 1e-9) if math.isfinite(left) else None)
                run.offer(self.solve(problem.with_strategy(Strategy.SCAS), quarter, seed).solution)
            return search_dcas(problem, run)
        blocks = blocks_of(problem)
        run.prove(blocks.cheapest_total())
        if run.is_proved():
            return StopReason.PROVED
        circle = Circle(problem, blocks, run)
        if circle.search_line() and circle.search_straddling() and run.objective is not None:
            run.prove(run.objective)
        return StopReason.TIME_LIMIT
