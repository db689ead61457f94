"""The back ends in this process: statuses, bounds and limits mean what they say."""

import itertools
from types import ModuleType

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csc_array
from support.windows import paper_window, windows

from allocopt.formulations.backends import cp_sat, highs, scip
from allocopt.formulations.backends.program import BinaryProgram, Progress, Request
from allocopt.formulations.topology.integer import Pack, Paper
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import Blocks

NO_LIMIT = float("inf")

every_back_end = pytest.mark.parametrize("back_end", [scip, highs, cp_sat], ids=lambda module: module.__name__)


def least(program: BinaryProgram) -> float | None:
    """Optimum by looking at every point; None if none is feasible."""
    points = np.array(list(itertools.product([0.0, 1.0], repeat=len(program.costs))))
    rows = points @ program.matrix.toarray().T
    feasible = ((program.row_lower <= rows) & (rows <= program.row_upper)).all(axis=1)
    return float((points @ program.costs)[feasible].min()) if feasible.any() else None


@st.composite
def programs(draw: st.DrawFn) -> BinaryProgram:
    """Programs of up to 6 columns and 4 rows of every kind: equal, at least, at most, both, free."""
    n, rows = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    matrix = draw(st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=rows, max_size=rows))
    for index, row in enumerate(matrix):
        row[index % n] = row[index % n] or 1
    costs = draw(st.lists(st.integers(0, 50_000), min_size=n, max_size=n).filter(any))
    side = st.integers(-3, 3)
    sides = st.tuples(side, side).map(sorted) | st.tuples(side, st.just(np.inf)) | st.tuples(st.just(-np.inf), side)
    lower, upper = zip(*draw(st.lists(sides, min_size=rows, max_size=rows)), strict=True)
    return BinaryProgram(
        np.array(costs, dtype=float) / 7,
        csc_array(np.array(matrix, dtype=float)),
        np.array(lower, dtype=float),
        np.array(upper, dtype=float),
        (),
        (),
    )


@every_back_end
@given(program=programs())
def test_any_program_is_solved_or_proved_infeasible(back_end: ModuleType, program: BinaryProgram) -> None:
    seen: list[Progress] = []
    outcome = back_end.solve_program(Request(program, NO_LIMIT), seen.append)
    expected = least(program)
    assert outcome.is_proved
    if expected is None:
        assert outcome.chosen is None
        return
    assert program.cost_of(outcome.chosen) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    bounds = [progress.bound for progress in (*seen, outcome) if progress.bound is not None]
    assert all(bound <= expected + 1e-6 * max(1.0, expected) for bound in bounds)


@pytest.mark.slow
@every_back_end
def test_no_bound_that_is_shown_before_a_limit_excludes_the_optimum(back_end: ModuleType) -> None:
    problem = paper_window(3, Strategy.SCAS)
    blocks = Blocks.of(problem)
    best = scip.solve_program(Request(Pack(problem, blocks).program(), NO_LIMIT), lambda progress: None)
    bounds: list[float] = []
    for seconds in (2.0, 16.0, 128.0):
        seen: list[Progress] = []
        # One node, or one conflict, of the paper's model is far from a proof; SCIP takes its tree apart at the end.
        outcome = back_end.solve_program(Request(Paper(problem, blocks).program(), seconds, 0, 1), seen.append)
        bounds = [progress.bound for progress in (*seen, outcome) if progress.bound is not None]
        # On a busy machine there is none yet.
        if bounds:
            break
    assert bounds
    assert max(bounds) <= best.bound * (1 + 1e-9)


@given(program=programs(), data=st.data())
def test_any_row_prices_give_a_bound_and_reduced_costs_that_hold(program: BinaryProgram, data: st.DataObject) -> None:
    n_rows = len(program.row_lower)
    prices = np.array(data.draw(st.lists(st.integers(-9_000, 9_000), min_size=n_rows, max_size=n_rows)), dtype=float)
    bound, reduced_costs = program.priced(prices)
    expected = least(program)
    if expected is None:
        return
    assert bound <= expected + 1e-6
    for column, reduced in enumerate(reduced_costs):
        chosen = BinaryProgram(
            program.costs,
            csc_array(np.vstack([program.matrix.toarray(), np.eye(len(program.costs))[column]])),
            np.append(program.row_lower, 1.0),
            np.append(program.row_upper, 1.0),
            (),
            (),
        )
        forced = least(chosen)
        assert forced is None or forced >= bound + max(0.0, reduced) - 1e-6


@given(problem=windows(strategy=Strategy.SCAS))
def test_integer_costs_lose_a_billionth_at_most_and_never_overstate(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    program = Pack(problem, blocks).program()
    # Costs that are zero but for the last bits need no scale: such a window is proved without a back end.
    assume(program.costs.max() > 1e-9)
    scale, integers = cp_sat._integer_costs(program)
    assert (integers / scale <= program.costs).all()
    assert np.abs(integers).max() <= 2**50
    assert np.abs(integers).sum() < 2**62
    least_total = float(blocks.counts @ blocks.costs.min(axis=1))
    lost = (program.costs - integers / scale).max() * len(problem.jobs)
    if least_total > 0:
        assert lost <= 1e-9 * least_total
