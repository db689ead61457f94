"""The allocation order: each job is consecutive in the sequence that the jobs before it have left."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import dcas_allocations, free_allocations
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.problem import allocation_order, check_non_crossing, check_order

CLUSTER = FatTree(2, 2, 10)


def can_be_replayed(problem: TopologyProblem, allocation: Allocation, order: tuple[int, ...]) -> bool:
    """Place the jobs in an order; return whether each is consecutive in the circle of the nodes still idle."""
    idle = problem.idle_nodes.tolist()
    for job in order:
        nodes = set(allocation.nodes[job].tolist())
        if nodes not in [{idle[(start + k) % len(idle)] for k in range(len(nodes))} for start in range(len(idle))]:
            return False
        idle = [node for node in idle if node not in nodes]
    return sorted(order) == list(range(len(problem.jobs)))


@st.composite
def nested(draw: st.DrawFn) -> tuple[TopologyProblem, Allocation]:
    """Draw a window, and an allocation made by placing jobs one after the other at drawn starts."""
    m = draw(st.integers(1, 40))
    left, owners = list(range(m)), np.full(m, -1)
    sizes = []
    while left and len(sizes) < 9 and (not sizes or draw(st.booleans())):
        size = draw(st.integers(1, len(left)))
        start = draw(st.integers(0, len(left) - 1))
        taken = [left[(start + k) % len(left)] for k in range(size)]
        owners[taken] = len(sizes)
        sizes.append(size)
        left = [position for position in left if position not in taken]
    relabelled = draw(st.permutations(range(len(sizes))))
    problem = window(CLUSTER, range(m), [sizes[job] for job in relabelled], strategy="dcas")
    names = np.append(np.argsort(relabelled), -1)
    return problem, Allocation.of_owners(problem, names[owners])


@given(nested())
def test_replaying_the_order_places_every_job_on_consecutive_nodes(case: tuple[TopologyProblem, Allocation]) -> None:
    assert can_be_replayed(*case, allocation_order(*case))


@given(case=nested(), data=st.data())
def test_the_checker_takes_exactly_the_orders_that_can_be_replayed(
    case: tuple[TopologyProblem, Allocation], data: st.DataObject
) -> None:
    problem, allocation = case
    order = tuple(data.draw(st.permutations(range(len(problem.jobs)))))
    ids = [problem.jobs[job].id for job in order]
    if can_be_replayed(problem, allocation, order):
        check_order(problem, allocation, ids)
    else:
        with pytest.raises(InvalidSolutionError, match="is not contiguous"):
            check_order(problem, allocation, ids)


@given(windows(most_idle=7, most_jobs=4))
def test_exactly_what_placing_one_after_the_other_reaches_has_an_order(problem: TopologyProblem) -> None:
    reached = dcas_allocations(problem)
    for owners in free_allocations(problem):
        allocation = Allocation.of_owners(problem, np.array(owners))
        if owners in reached:
            assert can_be_replayed(problem, allocation, allocation_order(problem, allocation))
        else:
            with pytest.raises(InvalidSolutionError, match="cross"):
                allocation_order(problem, allocation)


def partitions(nodes: int, most: int) -> Iterator[tuple[int, ...]]:
    """All falling lists of job sizes that ask for so many nodes."""
    if nodes == 0:
        yield ()
    for size in range(min(nodes, most), 0, -1):
        yield from ((size, *rest) for rest in partitions(nodes - size, size))


@pytest.mark.parametrize(
    ("m", "sizes"), [(m, sizes) for m in range(1, 8) for asked in range(1, m + 1) for sizes in partitions(asked, asked)]
)
def test_the_verifier_accepts_as_many_allocations_as_kreweras_counts(m: int, sizes: tuple[int, ...]) -> None:
    # m (m - 1) ... (m - b + 2) for b labelled blocks of given sizes, the leftover being one where there is any.
    problem = window(CLUSTER, range(m), sizes, strategy="dcas")
    accepted = sum(_accepts(problem, owners) for owners in free_allocations(problem))
    blocks = len(sizes) + (sum(sizes) < m)
    assert accepted == math.prod(range(m - blocks + 2, m + 1))


def _accepts(problem: TopologyProblem, owners: tuple[int, ...]) -> bool:
    try:
        check_non_crossing(problem, np.array(owners))
    except InvalidSolutionError:
        return False
    return True
