"""The program of relocations: its optimum is that of looking at every way, and it says where there is none."""

import math

import numpy as np
import pytest
from support.relocations import best_relocation, on, problem_of, random_problem, request

from allocopt.formulations.relocation.cells import Cells
from allocopt.formulations.relocation.program import RelocationModel
from allocopt.problems.relocation.obstacles import all_stoppable, obstacles
from allocopt.problems.relocation.problem import PlacedJob, WaitingGang, verify_relocation
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Status

N_RANDOM = 150


@pytest.mark.parametrize("solver", ["highs", "cp-sat", "scip"])
def test_random_problems_are_solved_as_by_looking_at_every_way(solver: str) -> None:
    infeasible = 0
    for seed in range(N_RANDOM):
        problem = random_problem(seed)
        result = get_solver(solver, None, "relocation").solve(problem, Budget(60.0), 0)
        best = best_relocation(problem)
        if math.isinf(best):
            infeasible += 1
            assert result.status is Status.INFEASIBLE, seed
            continue
        assert result.status is Status.OPTIMAL, seed
        assert result.objective == pytest.approx(best, abs=1e-9), seed
        assert verify_relocation(problem, result.solution) == pytest.approx(best, abs=1e-9), seed
    assert 5 < infeasible < N_RANDOM / 2


def test_the_columns_of_an_answer_keep_to_the_rows_and_cost_as_much() -> None:
    encoded = 0
    for seed in range(N_RANDOM):
        problem = random_problem(seed)
        for solver in ("highs", "cheapest-first", "best-rack"):
            solution = get_solver(solver, None, "relocation").solve(problem, Budget(60.0), 0).solution
            if solution is None:
                continue
            model = RelocationModel(problem)
            program, chosen = model.program(), model.encode(solution)
            assert chosen is not None, seed
            encoded += 1
            values = np.zeros(len(program.costs))
            values[chosen] = 1.0
            rows = program.matrix @ values
            assert (rows <= program.row_upper + 1e-9).all(), seed
            assert (rows >= program.row_lower - 1e-9).all(), seed
            waiting = sum(gang.wait_cost or 0.0 for gang in problem.waiting)
            assert program.cost_of(chosen) + waiting == pytest.approx(problem.objective(solution)), seed
            again = model.decode(chosen)
            assert again is not None
            assert problem.objective(again) == pytest.approx(problem.objective(solution)), seed
    assert encoded > N_RANDOM


def test_nodes_that_hold_the_same_jobs_are_counted_together() -> None:
    jobs = [PlacedJob("a", request(8, 3), on(0, 1, 2), 1.0), PlacedJob("b", request(8, 1), on(4), 1.0)]
    problem = problem_of(4, 8, jobs, [WaitingGang("g", request(8, 4, within=True))])
    found = Cells.of(problem)
    assert [nodes.tolist() for nodes in found.nodes] == [[0, 1, 2], [3], [4], [5, 6, 7]]
    assert found.never_share


def test_nodes_are_told_apart_where_jobs_may_share_one() -> None:
    problem = problem_of(4, 8, [], [WaitingGang("g", request(8, 4, units=1, within=True))])
    found = Cells.of(problem)
    assert not found.never_share
    assert set(found.sizes.tolist()) == {1}


def test_a_node_that_two_jobs_share_is_told_apart_and_no_other() -> None:
    jobs = [PlacedJob(name, request(8, 1, units=1), on(0), 1.0) for name in "ab"]
    problem = problem_of(4, 8, jobs, [WaitingGang("g", request(8, 4, within=True))])
    assert [nodes.tolist() for nodes in Cells.of(problem).nodes] == [[0], [1, 2, 3], [4, 5, 6, 7]]


def test_a_job_that_must_leave_and_must_not_is_said_to_be_infeasible_without_a_search() -> None:
    stuck = PlacedJob("a", request(4, 1), on(0))
    problem = problem_of(2, 4, [stuck], [], emptied=[0])
    assert get_solver("highs", None, "relocation").solve(problem, Budget(10.0), 0).status is Status.INFEASIBLE


def test_who_leaves_first_and_finds_nodes_later_is_within_the_bounds_of_looking_at_every_way() -> None:
    met = answered = 0
    for seed in range(300):
        problem = random_problem(seed)
        result = get_solver("leave-first", None, "relocation").solve(problem, Budget(60.0), 0)
        best = best_relocation(problem)
        if result.status is Status.INFEASIBLE:
            assert math.isinf(best), seed
            continue
        assert result.bound is None or result.bound <= best + 1e-9, seed
        if result.solution is not None:
            answered += 1
            assert verify_relocation(problem, result.solution) >= best - 1e-9, seed
            met += result.status is Status.OPTIMAL
    assert answered > 150
    assert met > answered / 2


def test_who_moves_within_a_rack_is_proved_to_stop_where_no_rack_has_room_although_the_cluster_has() -> None:
    # Three nodes are idle, one in each other rack; "pair" needs two in one, and all else must stay.
    running = [PlacedJob("pair", request(9, 2, within=True), on(0, 1), 5.0, 1.0)]
    running += [PlacedJob(f"fixed{node}", request(9, 1), on(node)) for node in (2, 4, 5, 7, 8)]
    problem = problem_of(3, 9, running, [WaitingGang("g", request(9, 2, within=True))])
    result = get_solver("leave-first", None, "relocation").solve(problem, Budget(10.0), 0)
    assert (result.status, result.objective) == (Status.OPTIMAL, 5.0)
    assert best_relocation(problem) == 5.0


@pytest.mark.parametrize("solver", ["highs", "cp-sat", "scip", "leave-first"])
def test_nothing_to_do_is_proved_to_cost_nothing(solver: str) -> None:
    problem = problem_of(2, 4, [PlacedJob("a", request(4, 1), on(0), 1.0)], [], emptied=[3])
    result = get_solver(solver, None, "relocation").solve(problem, Budget(10.0), 0)
    assert (result.status, result.objective) == (Status.OPTIMAL, 0.0)


@pytest.mark.parametrize("solver", ["highs", "cp-sat", "scip", "leave-first"])
def test_costs_that_solvers_cannot_tell_apart_are_refused(solver: str) -> None:
    jobs = [
        PlacedJob(name, request(2, 1), on(node), cost) for node, (name, cost) in enumerate([("a", 1.0), ("b", 3.0)])
    ]
    gangs = [WaitingGang("g", request(2, 1), 1e12), WaitingGang("h", request(2, 1), 2.0)]
    refusal = get_solver(solver, None, "relocation").refusal(problem_of(2, 2, jobs, gangs))
    assert refusal == "its costs lie between 1 and 1e+12, which differ by more than 1e+06"


def test_who_stands_in_the_way_is_found_among_jobs_that_may_only_move_too() -> None:
    jobs = [PlacedJob("a", request(2, 1), on(0), None, 1.0), PlacedJob("b", request(2, 1), on(1))]
    problem = problem_of(2, 2, jobs, [], emptied=[0])
    result = get_solver("highs", None, "relocation").solve(all_stoppable(problem), Budget(10.0), 0)
    assert result.objective == 1.0
    assert len(obstacles(problem, result.solution)) == 1
