"""The Pack model and the paper's model: what their points are, and what they stand for."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import cost_of, hop_matrix, scas_allocations
from support.windows import window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks
from formulations.backends.program import BinaryProgram
from formulations.backends.protocol import Formulation
from formulations.topology.integer import Pack, Paper, ScipPack, ScipPaper

scas_windows = windows(most_idle=6, strategy=Strategy.SCAS)


def pack(problem: TopologyProblem) -> Pack:
    return Pack(problem, Blocks.of(problem))


def paper(problem: TopologyProblem) -> Paper:
    return Paper(problem, Blocks.of(problem))


def paper_with_cancel(problem: TopologyProblem) -> Paper:
    return Paper(problem, Blocks.of(problem), cancel=True)


every_formulation = pytest.mark.parametrize("formulate", [pack, paper, paper_with_cancel])


def holds(program: BinaryProgram, chosen: IntArray) -> bool:
    """Whether the point obeys all rows."""
    rows = program.matrix @ np.isin(np.arange(len(program.costs)), chosen).astype(float)
    return bool(((program.row_lower <= rows) & (rows <= program.row_upper)).all())


@every_formulation
@given(problem=scas_windows)
def test_every_scas_allocation_is_a_point_of_its_cost(
    formulate: Callable[[TopologyProblem], Formulation], problem: TopologyProblem
) -> None:
    formulation = formulate(problem)
    program = formulation.program()
    hops = hop_matrix(problem)
    for owners in scas_allocations(problem):
        chosen = formulation.encode(Allocation.of_owners(problem, np.array(owners)))
        assert holds(program, chosen)
        assert program.cost_of(chosen) == pytest.approx(cost_of(problem, owners, hops), rel=1e-9, abs=1e-9)


@every_formulation
@given(problem=scas_windows)
def test_decoding_returns_what_was_encoded_up_to_equal_jobs(
    formulate: Callable[[TopologyProblem], Formulation], problem: TopologyProblem
) -> None:
    formulation = formulate(problem)
    allocation = Allocation.sequential(problem)
    decoded = formulation.decode(formulation.encode(allocation))
    assert decoded is not None
    assert [len(nodes) for nodes in decoded.nodes] == problem.sizes.tolist()
    assert sorted(map(tuple, decoded.nodes)) == sorted(map(tuple, allocation.nodes))


@given(problem=windows(most_idle=4, most_jobs=2, strategy=Strategy.SCAS))
def test_the_points_of_the_paper_s_model_are_the_scas_allocations(problem: TopologyProblem) -> None:
    formulation = paper(problem)
    program = formulation.program()
    n_columns = len(program.costs)
    m, n_jobs = len(problem.idle_nodes), len(problem.jobs)
    found = set()
    # Given the starts, Eq. 4 and the sizes leave at most one x.
    for starts in np.ndindex(*(m,) * n_jobs):
        x = {
            (n_jobs + job) * m + (start + k) % m
            for job, start in enumerate(starts)
            for k in range(problem.jobs[job].nodes)
        }
        chosen = np.array(sorted({job * m + start for job, start in enumerate(starts)} | x))
        assert chosen.max() < n_columns
        if holds(program, chosen):
            decoded = formulation.decode(chosen)
            assert decoded is not None
            found.add(tuple(decoded.owners(problem).tolist()))
    assert found == scas_allocations(problem)


@given(problem=scas_windows)
def test_the_number_of_nonzeros_is_known_before_the_model_is_built(problem: TopologyProblem) -> None:
    assert pack(problem).program().matrix.nnz == ScipPack().nonzeros(problem)
    assert paper(problem).program().matrix.nnz == ScipPaper().nonzeros(problem)


def test_a_cancelled_job_gets_no_nodes_and_costs_more_than_any_allocation(caplog: pytest.LogCaptureFixture) -> None:
    problem = window(FatTree(2, 2, 2), range(8), [3, 2], strategy=Strategy.SCAS)
    formulation = paper_with_cancel(problem)
    program = formulation.program()
    both = len(program.costs) - np.array([2, 1])
    dearest = Blocks.of(problem).costs.max(axis=1).sum()
    assert program.column_names()[-2:] == ["cancel_0", "cancel_1"]
    assert holds(program, both)
    assert program.costs[both].min() > dearest
    # Job 0 may be cancelled while job 1 has positions 4 and 5; it may not be while it has a node.
    one = np.array([8 + 4, 16 + 8 + 4, 16 + 8 + 5, both[0]])
    assert holds(program, one)
    assert not holds(program, np.append(one, 16))
    with caplog.at_level(logging.INFO):
        assert formulation.decode(one) is None
    assert "window: a solution cancels 1 of 2 jobs" in caplog.text


def test_columns_and_rows_have_names_that_say_what_they_are() -> None:
    problem = window(FatTree(1, 2, 2), range(4), [2, 1, 1], strategy=Strategy.SCAS)
    program = pack(problem).program()
    assert program.column_names() == [f"y_{size}_{start}" for size in (1, 2) for start in range(4)]
    assert program.row_names()[:3] == ["jobs_of_size_1", "jobs_of_size_2", "position_0"]
    assert len(program.row_names()) == len(program.row_lower) == 6
    assert program.row_lower[:2].tolist() == [2, 1]
    program = paper(problem).program()
    assert len(program.row_names()) == len(program.row_lower)
    assert len(set(program.row_names())) == len(program.row_names())
    assert program.row_names()[3:5] == ["covers_0_0_0", "covers_0_0_1"]
    assert len(program.column_names()) == len(program.costs)


@given(problem=scas_windows)
def test_the_pack_model_of_some_blocks_is_the_whole_model_without_the_other_columns(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    allocation = Allocation.sequential(problem)
    chosen = Pack(problem, blocks).encode(allocation)
    kept = np.union1d(chosen, np.arange(blocks.costs.size)[::2])
    some, whole = Pack(problem, blocks, kept), Pack(problem, blocks).program()
    program = some.program()
    assert (program.matrix.toarray() == whole.matrix.toarray()[:, kept]).all()
    assert (program.costs == whole.costs[kept]).all()
    assert (program.row_lower == whole.row_lower).all()
    assert (program.row_upper == whole.row_upper).all()
    assert len(set(program.column_names())) == len(kept)
    assert program.row_names() == whole.row_names()
    assert np.array_equal(kept[some.encode(allocation)], chosen)
    decoded = some.decode(some.encode(allocation))
    assert decoded is not None
    assert problem.objective(decoded) == problem.objective(allocation)
