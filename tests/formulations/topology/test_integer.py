"""Integer programs of windows: what their points stand for, and solvers unharmed by what happens to their children."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import cost_of, hop_matrix, scas_allocations
from support.results import solved_by
from support.windows import paper_window, window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree
from allocopt.formulations.backends.program import BinaryProgram, Formulation
from allocopt.formulations.backends.solver import pool_of
from allocopt.formulations.topology.integer import Pack, PackSolver, Paper, ScipPaper
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.problem import LARGEST_HOP_COST, LEAST_HOP_COST
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.verify import verify_result

scas_windows = windows(most_idle=6, strategy=Strategy.SCAS)


def pack(problem: TopologyProblem) -> Pack:
    return Pack(problem, Blocks.of(problem))


def paper(problem: TopologyProblem, *, cancel: bool = False) -> Paper:
    return Paper(problem, Blocks.of(problem), cancel)


paper_with_cancel = partial(paper, cancel=True)


def holds(program: BinaryProgram, chosen: IntArray) -> bool:
    """Whether the point obeys all rows."""
    rows = program.matrix @ np.isin(np.arange(len(program.costs)), chosen).astype(float)
    return bool(((program.row_lower <= rows) & (rows <= program.row_upper)).all())


@pytest.mark.parametrize("formulate", [pack, paper, paper_with_cancel])
@given(problem=scas_windows)
def test_every_scas_allocation_is_a_point_of_its_cost_that_is_decoded_up_to_equal_jobs(
    formulate: Callable[[TopologyProblem], Formulation], problem: TopologyProblem
) -> None:
    formulation = formulate(problem)
    program = formulation.program()
    hops = hop_matrix(problem)
    for owners in scas_allocations(problem):
        allocation = Allocation.of_owners(problem, np.array(owners))
        chosen = formulation.encode(allocation)
        decoded = formulation.decode(chosen)
        assert [len(nodes) for nodes in decoded.nodes] == problem.sizes.tolist()
        assert sorted(map(tuple, decoded.nodes)) == sorted(map(tuple, allocation.nodes))
        assert holds(program, chosen)
        assert program.cost_of(chosen) == pytest.approx(cost_of(problem, owners, hops), rel=1e-9, abs=1e-9)
    # The number of nonzeros is known before the model is built.
    if formulate is not paper_with_cancel:
        solver = PackSolver.scip() if formulate is pack else ScipPaper()
        assert program.matrix.nnz == solver.nonzeros(problem)


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
            found.add(tuple(decoded.owners(problem).tolist()))
    assert found == scas_allocations(problem)


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
    assert problem.objective(decoded) == problem.objective(allocation)


PACK = {"scip": PackSolver.scip(), "highs": PackSolver.highs(), "cp-sat": PackSolver.cp_sat()}

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for child processes in /proc")


@pytest.fixture(params=PACK)
def pack_solver(request: pytest.FixtureRequest) -> PackSolver:
    return PACK[request.param]


@pytest.fixture
def hard() -> TopologyProblem:
    """Make a window on which the paper's model takes SCIP tens of seconds."""
    return paper_window(3, Strategy.SCAS)


@pytest.mark.parametrize("hop_cost", [LEAST_HOP_COST, LARGEST_HOP_COST])
def test_the_proof_holds_whatever_a_hop_costs(pack_solver: PackSolver, hop_cost: float) -> None:
    problem = paper_window(5, Strategy.SCAS)
    scaled = window(problem.topology, problem.idle_nodes, problem.sizes.tolist(), hop_cost, Strategy.SCAS)
    expected, result = solved_by(PACK["scip"], problem), solved_by(pack_solver, scaled)
    assert expected.status is result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(expected.objective * hop_cost / 1000.0, rel=1e-9)


def test_improvements_are_shown_while_the_search_goes_on(hard: TopologyProblem) -> None:
    seen = []
    result = PackSolver.scip().solve(hard, Budget(), 0, on_incumbent=seen.append)
    assert tuple(seen) == result.incumbents
    assert len(seen) > 1


def test_cancelled_jobs_are_logged_and_no_incumbent(caplog: pytest.LogCaptureFixture) -> None:
    idle = [node for node in range(60) if node % 7 not in (2, 5)]
    problem = window(FatTree(3, 4, 5), idle, [10, 9, 8], strategy=Strategy.SCAS)
    with caplog.at_level(logging.INFO, logger="allocopt.formulations"):
        result = solved_by(get_solver("scip-paper", {"cancel": True}), problem)
    assert "a solution cancels 1 of 3 jobs" in caplog.text
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(solved_by(PACK["highs"], problem).objective)


@pytest.mark.slow
def test_the_parent_process_loads_no_back_end() -> None:
    script = (
        "import sys; from allocopt.formulations.topology.integer import PackSolver\n"
        "PackSolver.scip().is_available(); PackSolver.cp_sat().version\n"
        "print(sorted({'pyscipopt', 'ortools', 'pandas', 'scipy.optimize'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


SETUP = """
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.cluster.topology import FatTree
from allocopt.solving.solve import solve
"""

SCRIPT = f"""{SETUP}
idle = [k for k in range(60) if k % 7 not in (2, 5)]
problem = TopologyProblem(FatTree(3, 4, 5), idle, tuple(Job(str(k), 3 + k) for k in range(5)))
for name in ("scip", "highs", "cp-sat"):
    print(name, solve(problem, solver=name, strategy="scas").status)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_and_nothing_else_is_printed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert run.stdout == "scip OPTIMAL\nhighs OPTIMAL\ncp-sat OPTIMAL\n"
    assert run.stderr == ""


PATIENCE = 6000
"""Looks, 0.02 s apart, after which what is waited for does not come."""

T = TypeVar("T")


@pytest.fixture
def new_children() -> None:
    """End the children that other tests have left."""
    pool_of.cache_clear()


def living() -> dict[int, list[str]]:
    """Return what the system says of every process that has not ended: state, parent, and so on."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
    return {pid: fields for pid, fields in found.items() if fields[0] != "Z"}


def children_of(parent: int) -> set[int]:
    return {pid for pid, fields in living().items() if int(fields[1]) == parent}


def waited_for(look: Callable[[], T]) -> T:
    """Return what a look finds as soon as it finds anything."""
    for _ in range(PATIENCE):
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("what is waited for does not come")


def gone(pids: set[int]) -> bool:
    """Whether the processes end, which takes them a moment."""
    return waited_for(lambda: not pids & living().keys())


def busy_children_of(parent: int, known: set[int]) -> set[int]:
    """Wait for new children of a process that have worked for a second, on a busy machine too: by then they solve."""
    new = waited_for(lambda: children_of(parent) - known)
    second = os.sysconf("SC_CLK_TCK")
    waited_for(lambda: all(sum(map(int, living()[pid][11:13])) >= second for pid in new))
    return new


class During(threading.Thread):
    """Sends a signal to the process that solves, or its child, when the child is busy."""

    def __init__(self, number: int, target: str) -> None:
        super().__init__()
        self._number, self._target, self._known = number, target, children_of(os.getpid())
        self.start()

    def run(self) -> None:
        self.children = busy_children_of(os.getpid(), self._known)
        for pid in {os.getpid()} if self._target == "parent" else self.children:
            os.kill(pid, self._number)


@pytest.mark.slow
@needs_proc
def test_ctrl_c_gives_the_best_so_far_and_leaves_no_child(hard: TopologyProblem, new_children: None) -> None:
    during = During(signal.SIGINT, "parent")
    result = ScipPaper().solve(hard, Budget(60.0), seed=0)
    during.join()
    assert result.status is Status.INTERRUPTED
    assert result.stopped_by is StopReason.INTERRUPTED
    verify_result(hard, result)
    assert result.bound is not None
    assert gone(during.children)


@pytest.mark.slow
@needs_proc
def test_a_child_that_is_killed_is_survived(
    hard: TopologyProblem, new_children: None, caplog: pytest.LogCaptureFixture
) -> None:
    solver = ScipPaper()
    during = During(signal.SIGKILL, "child")
    result = solver.solve(hard, Budget(60.0), seed=0)
    during.join()
    verify_result(hard, result)
    assert result.status is Status.FEASIBLE
    assert "back end 'scip' was killed by signal 9 in a solve" in caplog.text
    easy = window(FatTree(2, 2, 2), [0, 2, 3, 5, 6], [2, 2], strategy=Strategy.SCAS)
    assert solved_by(solver, easy).status is Status.OPTIMAL


PARENT = f"""{SETUP}
problem = TopologyProblem(FatTree(10, 10, 10), [k for k in range(400) if k % 9 not in (2, 5)],
    tuple(Job(str(k), 20 + 3 * k) for k in range(6)))
solve(problem, solver="scip-paper", strategy="scas", time_limit=None)
"""


@pytest.mark.slow
@needs_proc
def test_no_child_outlives_its_parent_even_in_a_solve() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT])
    children = busy_children_of(parent.pid, set())
    assert children_of(parent.pid) == children
    parent.kill()
    parent.wait()
    assert gone(children)


@pytest.mark.slow
@needs_proc
def test_a_child_stays_for_the_next_solve_of_whichever_solver(new_children: None) -> None:
    known = children_of(os.getpid())
    problem = paper_window(13, Strategy.SCAS)
    solved_by(PackSolver.highs(), problem)
    first = children_of(os.getpid()) - known
    solved_by(PackSolver.highs(), problem)
    assert children_of(os.getpid()) - known == first
    assert len(first) == 1
    pool_of.cache_clear()
    assert gone(first)
