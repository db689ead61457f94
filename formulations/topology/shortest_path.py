"""Solver ``csp``: SCAS as the constrained shortest path of the NSA paper (section IV-B), an oracle on small windows.

In the paper, vertices are the idle nodes and operation arcs lead from node i to node i + r - 1. So an operation could
begin at the node where another ends, and the operation of a one-node job is a loop. Here the vertices are the gaps
before, between and behind the nodes: transition arcs i -> i + 1 pass over a node, and operation arcs i -> i + r give
the r nodes between to a job. In the paper, a path must have e_r operation arcs of E_r. Here a vertex also holds the
numbers of jobs placed so far (a product graph), so that plain shortest paths meet this rule.

The paper leaves out the operation arcs that return "backwards" to the head of the sequence. A solution uses at most
one of them, because only one block can hold both the last and the first idle node. So every such arc is a separate
case: a block of size r with b nodes behind the cut leaves a path from gap b to gap m - (r - b) for the other jobs.
All cases with the same b begin at the same vertex and share one shortest-path tree.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.second_search import Searched
from allocopt.problems.topology.tables import BLOCK_KERNELS, Blocks
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Budget
from allocopt.topology import TopologySolver
from allocopt.version import __version__

# Most arcs of the product graph; one shortest-path tree of the largest graph takes about a tenth of a second.
LARGEST_GRAPH = 100_000

Used = tuple[int, ...]  # number of jobs of each distinct size that a path has placed
State = tuple[int, Used]  # a vertex of the product: a gap, and the jobs placed on the way to it


@dataclass(frozen=True, slots=True)
class ConstrainedShortestPath(TopologySolver):
    """Exact SCAS by shortest paths in networkx; an iteration is the tree for one number of nodes behind the cut."""

    name: ClassVar[str] = "csp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.SCAS}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_GRAPH:,} arcs: (idle nodes + 1) x product over sizes of (jobs of the size + 1) x (sizes + 1)",
    )

    @property
    def version(self) -> str:
        """Versions of this package and of networkx."""
        return f"{__version__}, networkx {nx.__version__}"

    def refusal(self, problem: TopologyProblem) -> str | None:
        _, counts = np.unique(problem.sizes, return_counts=True)
        # Every vertex has at most one transition arc, and one operation arc per size.
        arcs = (len(problem.idle_nodes) + 1) * math.prod((counts + 1).tolist()) * (len(counts) + 1)
        too_many = f"its graph would have {rounded(arcs)} arcs, at most {LARGEST_GRAPH:,} are supported"
        return too_many if arcs > LARGEST_GRAPH else None

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return BLOCK_KERNELS

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(Allocation.sequential(problem))
        blocks = Blocks.of(problem)
        run.prove(*blocks.cheapest())
        if run.is_proved():
            return StopReason.PROVED
        # The product of the graph, without backward arcs, and the multisets. The weight of an arc is its block's cost.
        graph: nx.DiGraph[State] = nx.DiGraph()
        n_idle, counts, costs = blocks.costs.shape[1], blocks.counts.tolist(), blocks.costs.tolist()
        for used in itertools.product(*(range(count + 1) for count in counts)):
            graph.add_weighted_edges_from(((gap, used), (gap + 1, used), 0.0) for gap in range(n_idle))
            for r, size in enumerate(blocks.sizes.tolist()):
                if used[r] < counts[r]:
                    gaps, more = range(n_idle - size + 1), _changed(used, r, 1)
                    graph.add_weighted_edges_from(((gap, used), (gap + size, more), costs[r][gap]) for gap in gaps)
        full: Used = tuple(counts)
        n_cases = int(blocks.sizes.max())
        cases = range(min(budget.iterations or n_cases, n_cases))
        longest = run.clock.elapsed()
        for behind in cases:
            started = run.clock.elapsed()
            # Do not begin a case that may exceed the time limit.
            if run.clock.remaining() < longest:
                break
            # Find the best starts by size of every case with this number of nodes behind the cut. With 0, no block lies
            # across it.
            paths: dict[State, list[State]] = nx.single_source_dijkstra_path(graph, (behind, (0,) * len(counts)))
            best = [_starts_on(paths[n_idle, full])] if behind == 0 else []
            for r, size in enumerate(blocks.sizes.tolist()):
                if size > behind > 0:
                    wrapped = n_idle - (size - behind)
                    starts = _starts_on(paths[wrapped, _changed(full, r, -1)])
                    starts[r].append(wrapped)
                    best.append(starts)
            for starts in best:
                run.offer(Allocation.of_blocks(problem, blocks.starts_of_jobs(problem, starts)))
            longest = max(longest, run.clock.elapsed() - started)
        else:
            if len(cases) == n_cases and run.objective is not None:
                run.prove(run.objective, Searched(run.objective))
        by_iterations = budget.iterations is not None and not run.clock.expired()
        return StopReason.ITERATIONS if by_iterations else StopReason.TIME_LIMIT


def _starts_on(path: list[State]) -> list[list[int]]:
    starts: list[list[int]] = [[] for _ in path[0][1]]
    for (gap, before), (_, after) in itertools.pairwise(path):
        if before != after:
            r = next(index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
            starts[r].append(gap)
    return starts


def _changed(used: Used, r: int, by: int) -> Used:
    return (*used[:r], used[r] + by, *used[r + 1 :])
