"""Exact solvers of co-allocation problems against all solutions, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.coallocations import best_value, coallocations, solutions, value_of
from support.results import assert_points, assert_proved

from allocopt.formulations.backends import cp_sat, highs, scip
from allocopt.formulations.backends.program import Request
from allocopt.formulations.coallocation import CoallocationModel, IntegerCoallocation, _assignment_bound
from allocopt.problems.coallocation.generate import synthetic_coallocation
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem, GuestPlace
from allocopt.solving.solve import solve

BACK_ENDS = {"cp-sat": cp_sat, "highs": highs, "scip": scip}


def by_program(problem: CoallocationProblem, back_end: str) -> float:
    """Optimum of the program itself, without a start or a bound from elsewhere."""
    model = CoallocationModel(Pairs.of(problem))
    if model.is_empty():
        return 0.0
    outcome = BACK_ENDS[back_end].solve_program(Request(model.program(), 60.0), lambda progress: None)
    assert outcome.is_proved
    found = model.decode(outcome.chosen)
    assert model.bound_of(outcome.bound) >= problem.objective(found) - 1e-6
    return problem.objective(found)


@pytest.mark.parametrize("back_end", BACK_ENDS)
@settings(max_examples=50)
@given(problem=coallocations() | coallocations(several=True))
def test_a_program_finds_the_best_of_all_solutions(back_end: str, problem: CoallocationProblem) -> None:
    assert by_program(problem, back_end) == pytest.approx(best_value(problem), rel=1e-9, abs=1e-6)


@given(problem=coallocations(most_hosts=3) | coallocations(measured=True))
def test_the_assignment_is_the_best_of_all_solutions(problem: CoallocationProblem) -> None:
    assert_proved(solve(problem, solver="assignment", time_limit=60.0), best_value(problem))


@given(problem=coallocations(several=True))
def test_bounds_of_guests_that_are_alone_hold_for_several(problem: CoallocationProblem) -> None:
    pairs, best = Pairs.of(problem), best_value(problem)
    assert best - 1e-9 <= _assignment_bound(pairs)[0] <= pairs.bound() + 1e-9


@given(problem=coallocations(several=True))
def test_a_solution_costs_in_the_program_what_it_is_worth(problem: CoallocationProblem) -> None:
    model = CoallocationModel(Pairs.of(problem))
    if not model.is_empty():
        every = [
            (Coallocation(tuple(GuestPlace(*place) for place in places)), value_of(problem, places))
            for places in solutions(problem)
        ]
        assert_points(model, every, lambda cost: -cost, model.most_nonzeros())


def test_an_exported_program_names_hosts_guests_and_quotas() -> None:
    problem = synthetic_coallocation("drawn", np.random.default_rng(3), 8, 6, max_guests=3)
    names = IntegerCoallocation.scip().program(problem).column_names()
    assert len(set(names)) == len(names)
    assert {name[0] for name in names} == {"x", "y", "z"}
    assert all(len(name.split("_")) == {"x": 4, "y": 4, "z": 3}[name[0]] for name in names)
