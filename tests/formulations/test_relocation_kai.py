"""Cases of KAI Scheduler's integration tests, rebuilt: the optimum stops and moves no more jobs than theirs expects.

Their source is ``pkg/scheduler/actions/integration_tests`` of github.com/NVIDIA/KAI-Scheduler, commit 72de64fc; each
case names its file and its place there, counted from 1. Amounts are tenths of a GPU. Quotas, queues and priorities are
left out: a job that theirs protects by one of these must stay here. A victim costs 1, and where theirs consolidates, a
move a tenth of it.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from support.relocations import racks

from allocopt.cluster.request import ClusterRequest
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.problem import PlacedJob, RelocationProblem, WaitingGang
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

STAYS, STOPS, MOVES = "stays", "stops", "moves"


@dataclass(frozen=True)
class Case:
    """One case.

    Parameters
    ----------
    told
        What is asked, and where theirs is.
    nodes
        What each node has.
    running
        Amount of a task, tasks by node, and what may be done with each job.
    waiting
        Tasks of each gang, and the amount of one.
    victims
        How many jobs theirs stops or moves; None where theirs lets the gangs wait.
    """

    told: str
    nodes: tuple[int, ...]
    running: tuple[tuple[int, dict[int, int], str], ...]
    waiting: tuple[tuple[int, int], ...]
    victims: int | None

    def problem(self) -> RelocationProblem:
        """Return it as a problem."""
        size = len(self.nodes)
        running = [
            PlacedJob(
                f"job {number}",
                asks(size, sum(tasks.values()), amount),
                tuple(NodeTasks(node, count) for node, count in tasks.items()),
                1.0 if may == STOPS else None,
                0.1 if may == MOVES else None,
            )
            for number, (amount, tasks, may) in enumerate(self.running)
        ]
        waiting = [WaitingGang(f"gang {number}", asks(size, *gang)) for number, gang in enumerate(self.waiting)]
        capacity = np.array(self.nodes)[:, None]
        nothing = np.zeros(size, dtype=np.bool_)
        return RelocationProblem(racks(size, size), ("gpus",), capacity, tuple(running), tuple(waiting), nothing)


def asks(size: int, tasks: int, amount: int) -> ClusterRequest:
    """Return a request for tasks on any nodes, several on one if they fit."""
    everywhere = np.ones((1, size), dtype=np.bool_)
    amounts = np.array([amount]), np.zeros(1, dtype=np.int64)
    return ClusterRequest(tasks, 1, tasks, tasks, False, *amounts, everywhere, (0,), 0)


def on(node: int, tasks: int = 1) -> dict[int, int]:
    return {node: tasks}


CASES = (
    Case(
        "half a GPU is taken from the smallest of a queue above its share (reclaim, 1)",
        (40,),
        ((10, on(0), STAYS), (5, on(0), STAYS), (20, on(0), STOPS), (5, on(0), STOPS)),
        ((1, 5),),
        1,
    ),
    Case(
        "a job on all GPUs makes way for one on half of them (reclaim, 2)", (20,), ((20, on(0), STOPS),), ((1, 10),), 1
    ),
    Case(
        "one of two jobs on different nodes (reclaim, 3)",
        (20, 20),
        ((10, on(0), STAYS), (20, on(1), STOPS), (10, on(0), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "one of two jobs on different nodes, whichever is larger (reclaim, 4)",
        (20, 20),
        ((10, on(1), STOPS), (20, on(0), STOPS), (10, on(1), STAYS)),
        ((1, 10),),
        1,
    ),
    Case(
        "a job on the whole machine makes way for five of eight GPUs (reclaim, 7)",
        (80,),
        ((80, on(0), STOPS),),
        ((1, 50),),
        1,
    ),
    Case(
        "a small job among three (reclaim, 9)",
        (40,),
        ((20, on(0), STOPS), (10, on(0), STOPS), (10, on(0), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "one of four equal jobs (reclaim, 10)",
        (40,),
        tuple((10, on(0), STOPS) for _ in range(4)),
        ((1, 10),),
        1,
    ),
    Case(
        "the one job that is as large as the gang, and not two smaller ones (reclaim, 11)",
        (80,),
        ((10, on(0), STOPS), (30, on(0), STOPS), (40, on(0), STOPS)),
        ((1, 40),),
        1,
    ),
    Case(
        "one GPU from a queue that has three (reclaim, 12)",
        (70,),
        ((40, on(0), STAYS), (30, on(0), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "an interactive job is not touched (reclaim, 13)",
        (20,),
        ((10, on(0), STOPS), (10, on(0), STAYS)),
        ((1, 10),),
        1,
    ),
    Case(
        "one GPU is missing for a gang of four (reclaim, 16)",
        (80,),
        ((40, on(0), STOPS), (10, on(0), STOPS)),
        ((1, 40),),
        1,
    ),
    Case(
        "three GPUs from eight jobs of one (reclaim, 17)",
        (80,),
        tuple((10, on(0), STOPS) for _ in range(8)),
        ((1, 30),),
        3,
    ),
    Case(
        "both jobs, of two departments (reclaim, 18)",
        (40,),
        ((20, on(0), STOPS), (20, on(0), STOPS)),
        ((1, 40),),
        2,
    ),
    Case(
        "theirs stops two small jobs, where one large one would do (reclaim, 20)",
        (80,),
        ((50, on(0), STOPS), (10, on(0), STOPS), (10, on(0), STOPS)),
        ((1, 30),),
        2,
    ),
    Case(
        "two gangs of different size at once (reclaim, 21)",
        (90,),
        ((50, on(0), STOPS), (20, on(0), STOPS), (10, on(0), STOPS)),
        ((1, 10), (1, 30)),
        2,
    ),
    Case(
        "the interactive job on the other node is not touched (reclaim, 34)",
        (30, 30),
        ((20, on(0), STOPS), (20, on(1), STAYS)),
        ((1, 20),),
        1,
    ),
    Case(
        "one of two queues of a department (reclaim, 35)",
        (30, 30),
        ((20, on(0), STAYS), (10, on(1), STAYS), (20, on(1), STOPS), (10, on(0), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "two halves of a GPU on two nodes come together (reclaim, 39)",
        (10, 10),
        ((5, on(0), MOVES), (5, on(1), MOVES)),
        ((1, 10),),
        1,
    ),
    Case(
        "shares of 0.7 do not fit on one GPU, and one of them stops (reclaim, 40)",
        (10, 10),
        ((7, on(0), STOPS), (7, on(1), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "a gang of two gets an idle GPU and that of a victim (reclaim, 41)",
        (10, 10),
        ((7, on(0), STOPS),),
        ((2, 10),),
        1,
    ),
    Case(
        "a gang of two shares gets room beside a job that stays and that of a victim (reclaim, 42)",
        (10, 10),
        ((7, on(0), STOPS), (3, on(1), STAYS)),
        ((2, 7),),
        1,
    ),
    Case(
        "one whole GPU, and not two halves (preempt, 1)",
        (20,),
        ((5, on(0), STOPS), (10, on(0), STOPS), (5, on(0), STOPS)),
        ((1, 10),),
        1,
    ),
    Case(
        "all three jobs, where the gang needs the machine (preempt, 3)",
        (40,),
        ((10, on(0), STOPS), (20, on(0), STOPS), (10, on(0), STOPS)),
        ((1, 40),),
        3,
    ),
    Case(
        "no node is large enough, and nobody is stopped (preempt, 4)",
        (20, 20),
        ((10, on(0), STOPS), (20, on(1), STOPS), (10, on(0), STOPS)),
        ((1, 40),),
        None,
    ),
    Case(
        "a gang of two tasks takes the GPUs of one job (preempt gang, 1)", (20,), ((20, on(0), STOPS),), ((2, 10),), 1
    ),
    Case(
        "one task of a gang runs, and its other one needs one victim (preempt gang, 2)",
        (30,),
        ((10, on(0), STOPS), (10, on(0), STOPS), (10, on(0), STAYS)),
        ((1, 10),),
        1,
    ),
    Case("a gang of two tasks stops as a whole (preempt gang, 3)", (20,), ((10, on(0, 2), STOPS),), ((1, 10),), 1),
    Case(
        "two jobs on two nodes come together (consolidation, 1)",
        (20, 20),
        ((10, on(0), MOVES), (10, on(1), MOVES)),
        ((1, 20),),
        1,
    ),
    Case(
        "interactive jobs are not moved (consolidation, 2)",
        (20, 20),
        ((10, on(0), STAYS), (10, on(1), STAYS)),
        ((1, 20),),
        None,
    ),
    Case(
        "a gang of three tasks comes together on one node (consolidation gang, 1)",
        (30, 30),
        ((10, {0: 2, 1: 1}, MOVES),),
        ((1, 30),),
        1,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.told)
def test_no_more_jobs_stop_or_move_than_kai_expects(case: Case) -> None:
    problem = case.problem()
    result = solve(problem, solver="auto", time_limit=60.0)
    if case.victims is None:
        assert result.status is Status.INFEASIBLE
        return
    assert result.status is Status.OPTIMAL
    found = result.solution
    assert len(found.stopped(problem)) + len(found.moved(problem)) <= case.victims


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.told)
def test_the_rule_of_kai_stops_or_moves_as_many_jobs_as_kai_expects(case: Case) -> None:
    problem = case.problem()
    found = solve(problem, solver="kai-reclaim", time_limit=60.0).solution
    assert (None if found is None else len(found.stopped(problem)) + len(found.moved(problem))) == case.victims
