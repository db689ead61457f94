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

RULES = ("cheapest-first", "best-rack")
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


@pytest.mark.parametrize("rule", RULES)
def test_nodes_that_a_move_gives_up_count_when_a_rule_chooses(rule: str) -> None:
    running = [PlacedJob("a", request(SIZE, 2), on(0, 1), 5.0, 1.0, 10.0), PlacedJob("fixed", request(SIZE, 1), on(4))]
    problem = problem_of(4, SIZE, running, [WaitingGang("g", request(SIZE, 4, within=True))])
    assert stopped(rule, problem) == ["a"]
