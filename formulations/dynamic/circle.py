"""The circle of idle positions: the line from the cut on, and the cases in which one job straddles the cut."""

from collections.abc import Iterable
from dataclasses import dataclass

from allocopt.problems.blocks import Blocks
from allocopt.problems.encoding import allocation_of_blocks
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.run import Run
from formulations.dynamic.line import Line
from formulations.dynamic.multisets import Multisets


@dataclass(frozen=True, slots=True)
class Straddle:
    """The case that a job of size index ``r`` straddles the cut with ``behind`` nodes behind it.

    Parameters
    ----------
    r
        Index of the job's size.
    behind
        Number of its nodes at the head of the sequence.
    start
        Position at which its block begins, before the cut.
    cost
        Cost of its block.
    bound
        That cost plus the cheapest block of every other job.
    """

    r: int
    behind: int
    start: int
    cost: float
    bound: float


def straddling_cases(blocks: Blocks) -> list[Straddle]:
    """All cases in which one job straddles the cut, the least bound first."""
    m = blocks.costs.shape[1]
    total = blocks.cheapest_total()
    cases = []
    for r, size in enumerate(blocks.sizes.tolist()):
        others = total - float(blocks.costs[r].min())
        for behind in range(1, size):
            start = m - size + behind
            cost = float(blocks.costs[r, start])
            cases.append(Straddle(r, behind, start, cost, others + cost))
    return sorted(cases, key=lambda case: case.bound)


class Circle:
    """Searches the placements of all jobs on the circle, and records what it finds and proves.

    Parameters
    ----------
    problem
        The window.
    blocks
        Costs of its blocks.
    run
        The record.
    """

    def __init__(self, problem: TopologyProblem, blocks: Blocks, run: Run) -> None:
        self._problem = problem
        self._blocks = blocks
        self._run = run
        self._multisets = Multisets.of(blocks.sizes, blocks.counts)
        self._line = Line(blocks, self._multisets)

    def search_line(self) -> bool:
        """Find the best placement in which no job straddles the cut; return False if the time ran out."""
        if not self._line.fill(0, self._run.clock):
            return False
        self._offer(self._line.starts(self._blocks.costs.shape[1], self._multisets.full))
        return True

    def search_straddling(self) -> bool:
        """Solve the cases that may beat the incumbent, the most promising first; return False if the time ran out.

        All cases with the same number of nodes behind the cut share the tables of one line. The least bound of the
        cases that are left bounds the whole problem.
        """
        cases = self._promising(straddling_cases(self._blocks))
        while cases:
            self._run.prove(cases[0].bound)
            behind = cases[0].behind
            if not self._line.fill(behind, self._run.clock):
                return False
            for case in cases:
                if case.behind == behind:
                    self._offer_case(case)
            cases = self._promising(case for case in cases if case.behind != behind)
        return True

    def _promising(self, cases: Iterable[Straddle]) -> list[Straddle]:
        """Leave out the cases that cannot be better than the incumbent."""
        return [case for case in cases if self._run.objective is None or case.bound < self._run.objective]

    def _offer_case(self, case: Straddle) -> None:
        """Offer the best placement of a case if it beats the incumbent."""
        others = self._multisets.full - int(self._multisets.strides[case.r])
        cost = self._line.cost(case.start, others) + case.cost
        if self._run.objective is None or cost < self._run.objective:
            starts = self._line.starts(case.start, others)
            starts[case.r].append(case.start)
            self._offer(starts)

    def _offer(self, starts: list[list[int]]) -> None:
        """Offer the allocation with these start positions per distinct size."""
        self._run.offer(allocation_of_blocks(self._problem, self._blocks.starts_of_jobs(self._problem, starts)))
