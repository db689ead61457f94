"""The rules of production for making room: what they stop, and what they need not have stopped."""

import pytest
from support.relocations import best_relocation, on, problem_of, random_problem, request

from allocopt.problems.relocation.problem import (
    PlacedJob,
    Relocation,
    RelocationProblem,
    WaitingGang,
    verify_relocation,
)
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver

BOUND = ("best-rack", "cheapest-first", "kai-reclaim", "slurm-preempt", "volcano-gangpreempt")
RULES = (*BOUND, "volcano-preempt")
SIZE = 8


def answer(rule: str, problem: RelocationProblem) -> Relocation | None:
    result = get_solver(rule, None, "relocation").solve(problem, Budget(30.0), 0)
    found: Relocation | None = result.solution
    return found


def stopped(rule: str, problem: RelocationProblem) -> list[str]:
    found = answer(rule, problem)
    assert found is not None
    return [job.id for job in found.stopped(problem)]


@pytest.mark.parametrize("rule", RULES)
def test_on_random_problems_what_a_rule_does_is_valid_and_never_better_than_the_best(rule: str) -> None:
    answered = 0
    for seed in range(300):
        problem = random_problem(seed)
        found = answer(rule, problem)
        if found is not None:
            answered += 1
            assert verify_relocation(problem, found) >= best_relocation(problem) - 1e-9
    assert answered > 100


@pytest.mark.parametrize("rule", RULES)
def test_nobody_is_stopped_where_a_gang_fits_as_it_is(rule: str) -> None:
    running = [PlacedJob("a", request(SIZE, 1), on(0), 1.0)]
    assert stopped(rule, problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])) == []


def test_the_cheapest_jobs_of_the_cluster_are_given_back_where_they_did_not_help() -> None:
    # The cheapest job is in the other rack: it is stopped first, and goes on.
    running = [
        PlacedJob("cheap", request(SIZE, 1), on(7), 1.0),
        PlacedJob("fixed", request(SIZE, 1), on(6)),
        PlacedJob("near", request(SIZE, 2), on(0, 1), 5.0),
    ]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])
    assert stopped("cheapest-first", problem) == ["near"]


def test_best_rack_compares_what_racks_cost_and_cheapest_first_does_not() -> None:
    # In the first rack four jobs of cost 1, in the second one of cost 3.
    running = [PlacedJob(f"cheap{node}", request(SIZE, 1), on(node), 1.0) for node in range(4)]
    running.append(PlacedJob("dear", request(SIZE, 4), on(4, 5, 6, 7), 3.0))
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])
    assert stopped("best-rack", problem) == ["dear"]
    assert stopped("cheapest-first", problem) == [f"cheap{node}" for node in range(4)]
    assert best_relocation(problem) == 3.0


@pytest.mark.parametrize("rule", RULES)
def test_a_gang_that_costs_less_waiting_stops_nobody(rule: str) -> None:
    running = [PlacedJob(f"r{node}", request(SIZE, 1), on(node), 1.0) for node in (0, 4)]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True), 0.5)])
    assert stopped(rule, problem) == []


@pytest.mark.parametrize("rule", RULES)
def test_who_has_to_leave_moves_where_there_is_room_and_is_cheaper(rule: str) -> None:
    running = [
        PlacedJob("a", request(SIZE, 2), on(0, 1), 5.0, 1.0),
        PlacedJob("b", request(SIZE, 1), on(2), 1.0, 5.0),
    ]
    problem = problem_of(4, SIZE, running, [], emptied=[0, 2])
    found = answer(rule, problem)
    assert found is not None
    assert [job.id for job in found.moved(problem)] == ["a"]
    assert [job.id for job in found.stopped(problem)] == ["b"]
    assert problem.objective(found) == 2.0


@pytest.mark.parametrize("rule", BOUND)
def test_nodes_that_a_move_gives_up_count_when_a_rule_chooses(rule: str) -> None:
    running = [PlacedJob("a", request(SIZE, 2), on(0, 1), 5.0, 1.0, 10.0), PlacedJob("fixed", request(SIZE, 1), on(4))]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])
    assert stopped(rule, problem) == ["a"]


def test_slurm_preempts_the_large_job_that_does_in_place_of_three() -> None:
    """The example of Slurm's documentation: candidates of 2, 4 and 8 nodes, and a job of 8 nodes."""
    size = 14
    running = [
        PlacedJob("two", request(size, 2), on(0, 1), 2.0),
        PlacedJob("four", request(size, 4), on(2, 3, 4, 5), 4.0),
        PlacedJob("eight", request(size, 8), on(*range(6, 14)), 8.0),
    ]
    problem = problem_of(14, size, running, [WaitingGang("g", request(size, 8))])
    assert stopped("slurm-preempt", problem) == ["eight"]


def test_kai_takes_one_victim_more_for_each_task_more() -> None:
    running = [PlacedJob(f"r{node}", request(SIZE, 1), on(node), 1.0 + node) for node in range(SIZE)]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 3))])
    assert stopped("kai-reclaim", problem) == ["r0", "r1", "r2"]


def test_kai_never_looks_back_and_finds_nothing_where_its_first_rack_does_not_do() -> None:
    # The cheapest victim lies in a rack with a job that must stay; for two tasks there, one victim is not enough.
    running = [
        PlacedJob("cheap", request(6, 1), on(0), 1.0),
        PlacedJob("fixed", request(6, 2), on(1, 2)),
        *(PlacedJob(f"dear{node}", request(6, 1), on(node), 9.0) for node in (3, 4, 5)),
    ]
    problem = problem_of(3, 6, running, [WaitingGang("g", request(6, 2, within=True))])
    assert answer("kai-reclaim", problem) is None
    assert stopped("cheapest-first", problem) == ["dear4", "dear5"]


def test_kai_moves_before_it_stops() -> None:
    running = [
        PlacedJob("cheap", request(4, 1), on(0), 1.0),
        PlacedJob("movable", request(4, 1), on(2), 9.0, 5.0),
    ]
    problem = problem_of(2, 4, running, [WaitingGang("g", request(4, 2, within=True))])
    found = answer("kai-reclaim", problem)
    assert found is not None
    assert [job.id for job in found.moved(problem)] == ["movable"]
    assert found.stopped(problem) == []


def test_volcano_stops_whatever_its_first_rack_holds() -> None:
    running = [
        PlacedJob("small", request(SIZE, 1), on(0), 1.0),
        PlacedJob("large", request(SIZE, 3), on(1, 2, 3), 3.0),
        PlacedJob("cheap", request(SIZE, 1), on(4), 1.0),
    ]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])
    assert stopped("volcano-gangpreempt", problem) == ["small", "large"]
    assert stopped("best-rack", problem) == ["cheap"]


def test_volcano_gives_nobody_back() -> None:
    running = [PlacedJob(name, request(4, 1), on(node), cost) for name, node, cost in (("a", 0, 1.0), ("b", 2, 2.0))]
    running.append(PlacedJob("fixed", request(4, 2), on(1, 3)))
    problem = problem_of(2, 4, running, [WaitingGang("g", request(4, 1, only=[2]))])
    assert stopped("volcano-gangpreempt", problem) == ["a", "b"]
    assert stopped("cheapest-first", problem) == ["b"]


def test_volcano_places_tasks_one_by_one_and_leaves_gangs_bound_to_a_rack_waiting() -> None:
    # Nodes 0 and 1 are as full as any; their victims are dear, and taken as the first.
    running = [PlacedJob(f"r{node}", request(4, 1), on(node), 9.0 - node) for node in range(4)]
    anywhere = problem_of(2, 4, running, [WaitingGang("g", request(4, 2))])
    assert stopped("volcano-preempt", anywhere) == ["r0", "r1"]
    assert answer("volcano-preempt", problem_of(2, 4, running, [WaitingGang("g", request(4, 2, within=True))])) is None


@pytest.mark.parametrize("rule", BOUND)
def test_a_gang_that_may_lie_in_two_racks_gets_the_roomiest_two(rule: str) -> None:
    asked = request(9, 4)._replace(most_groups=(2,))
    running = [PlacedJob("a", request(9, 2), on(0, 1), 1.0), PlacedJob("b", request(9, 1), on(3), 1.0)]
    assert stopped(rule, problem_of(3, 9, running, [WaitingGang("g", asked)])) == []
