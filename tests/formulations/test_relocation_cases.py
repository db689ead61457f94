"""Cases that users of other schedulers have reported, rebuilt with names of this project's own.

Each says where it was reported; the numbers of nodes, devices and victims are those of the report.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from support.relocations import racks

from allocopt.cluster.request import ClusterRequest
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.problem import PlacedJob, Places, Relocation, RelocationProblem, WaitingGang
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

SOLVERS = ("highs", "cp-sat", "scip")


def problem_of(
    rack: int,
    nodes: int,
    amounts: Mapping[str, int],
    running: Sequence[PlacedJob],
    waiting: Sequence[WaitingGang],
    emptied: Sequence[int] = (),
) -> RelocationProblem:
    """Return a problem on equal nodes that have these amounts."""
    capacity = np.tile(list(amounts.values()), (nodes, 1))
    gone = np.isin(np.arange(nodes), emptied)
    return RelocationProblem(racks(nodes, rack), tuple(amounts), capacity, tuple(running), tuple(waiting), gone)


def asks(
    nodes: int, count: int, *amounts: int, within: bool = False, only: Sequence[int] | None = None, segment: int = 0
) -> ClusterRequest:
    """Return a request for ``count`` of some nodes, one piece each, which takes these amounts."""
    masks = np.ones((1, nodes), dtype=np.bool_) if only is None else np.isin(np.arange(nodes), only)[None]
    nothing = np.zeros(len(amounts), dtype=np.int64)
    parts = (segment,) if segment else ()
    return ClusterRequest(
        count, count, count, 1, False, nothing, np.array(amounts), masks, (int(within),), 0, parts
    )  # fmt: skip


def on(nodes: Sequence[int]) -> Places:
    return tuple(NodeTasks(node, 1) for node in nodes)


def solved(problem: RelocationProblem, solver: str) -> Relocation:
    result = solve(problem, solver=solver, time_limit=60.0)
    assert result.status is Status.OPTIMAL
    found: Relocation = result.solution
    return found


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_pod_of_a_gang_is_stopped_where_one_is_needed(solver: str) -> None:
    """Volcano issue 5984: of ten pods beyond a gang's minimum on one node, all were evicted for one."""
    pods = [PlacedJob(f"member{number}", asks(1, 1, 1), on([0]), 1.0 if number else None) for number in range(11)]
    problem = problem_of(1, 1, {"cores": 11}, pods, [WaitingGang("urgent", asks(1, 1, 1))])
    assert len(solved(problem, solver).stopped(problem)) == 1


def test_two_failed_nodes_of_500_are_replaced_and_the_others_kept() -> None:
    """Kueue issue 14244: two failed nodes of 500 threw the whole placement away."""
    nodes, failed = 560, [17, 300]
    big = PlacedJob("big", asks(nodes, 500, 8), on(range(500)), 500.0, 0.0, 1.0)
    problem = problem_of(20, nodes, {"gpus": 8}, [big], [], failed)
    (places,) = solved(problem, "highs").running
    assert places is not None
    kept = {node for node, _ in places} & set(range(500))
    assert kept == set(range(500)) - set(failed)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pod_without_gpus_leaves_too_where_it_is_in_the_way(solver: str) -> None:
    """Kueue issue 10497: the job on the GPUs was chosen, the one on the last pod slots was not, and nothing fitted."""
    low_gpu = PlacedJob("low-gpu", asks(1, 1, 8, 1), on([0]), 1.0)
    low_cpu = PlacedJob("low-cpu", asks(1, 1, 0, 1), on([0]), 1.0)
    problem = problem_of(1, 1, {"gpus": 8, "pods": 2}, [low_gpu, low_cpu], [WaitingGang("high", asks(1, 1, 8, 2))])
    assert [job.id for job in solved(problem, solver).stopped(problem)] == ["low-gpu", "low-cpu"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_victims_free_one_clique_and_not_as_many_nodes_anywhere(solver: str) -> None:
    """Kueue issue 10815: ten cliques of 18 nodes less two, a gang of 16 in one, and victims that freed none."""
    nodes = 180
    bad = [5, 100]
    running = [PlacedJob("bad", asks(nodes, 2, 4), on(bad))]
    for clique in range(10):
        there = [node for node in range(18 * clique, 18 * clique + 18) if node not in bad]
        # In each clique half of the nodes have jobs of one node, the others belong to one job. Small ones are cheaper.
        running += [
            PlacedJob(f"small{clique}-{node}", asks(nodes, 1, 4), on([node]), 1.0 + 0.01 * clique) for node in there[:9]
        ]
        running.append(PlacedJob(f"large{clique}", asks(nodes, len(there) - 9, 4), on(there[9:]), 9.0 - 0.5 * clique))
    gang = WaitingGang("gang", asks(nodes, 16, 4, within=True))
    problem = problem_of(18, nodes, {"gpus": 4}, running, [gang])
    found = solved(problem, solver)
    cliques = {node // 18 for node, _ in found.waiting[0]}
    assert cliques == {9}
    # Seven small ones and the large one free 16 nodes.
    assert sorted(job.id[:5] for job in found.stopped(problem)) == ["large", *["small"] * 7]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_victim_without_gpus_moves_to_a_node_without_gpus(solver: str) -> None:
    """KAI issue 1939: a job without GPUs was killed although a node without GPUs had room for it."""
    capacity = np.array([[8, 4], [0, 4]])
    victim = PlacedJob("victim", asks(2, 1, 0, 4), on([0]), 2.0, 1.0)
    gang = WaitingGang("training", asks(2, 1, 8, 4))
    problem = RelocationProblem(
        racks(2, 2), ("gpus", "cores"), capacity, (victim,), (gang,), np.zeros(2, dtype=np.bool_)
    )
    found = solved(problem, solver)
    assert found.stopped(problem) == []
    assert found.running == (on([1]),)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_gang_gets_one_gpu_of_each_of_many_nodes(solver: str) -> None:
    """KAI pull request 1537: each task needed a victim on another node of one GPU, and none were found."""
    nodes = 12
    running = [PlacedJob(f"victim{node}", asks(nodes, 1, 1), on([node]), 1.0) for node in range(nodes)]
    problem = problem_of(4, nodes, {"gpus": 1}, running, [WaitingGang("gang", asks(nodes, 7, 1))])
    assert len(solved(problem, solver).stopped(problem)) == 7


@pytest.mark.parametrize("solver", SOLVERS)
def test_that_no_victims_help_is_proved_at_once(solver: str) -> None:
    """KAI issue 1660: minutes of search ended without an answer; here every rack has one job that must stay."""
    nodes = 400
    running = [
        PlacedJob(f"job{node}", asks(nodes, 1, 8), on([node]), None if node % 20 == 0 else 1.0) for node in range(nodes)
    ]
    gang = WaitingGang("gang", asks(nodes, 40, 8, segment=20))
    problem = problem_of(20, nodes, {"gpus": 8}, running, [gang])
    assert solve(problem, solver=solver, time_limit=60.0).status is Status.INFEASIBLE
