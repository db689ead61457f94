"""The solvers by integer programming: exact, in time, and unharmed by what happens to their child processes."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.windows import paper_window, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology.problem import LARGEST_HOP_COST, LEAST_HOP_COST, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from formulations.backends.child import pool_of
from formulations.topology.integer import CpSatPack, HighsPack, ProgramSolver, ScipPack, ScipPaper

PACK = {"scip": ScipPack(), "highs": HighsPack(), "cp-sat": CpSatPack()}
EVERY = PACK | {"scip-paper": ScipPaper(), "scip-paper --cancel": ScipPaper(cancel=True)}

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for child processes in /proc")


@pytest.fixture(params=PACK)
def pack_solver(request: pytest.FixtureRequest) -> ProgramSolver:
    return PACK[request.param]


@pytest.fixture
def hard() -> TopologyProblem:
    """Make a window on which the paper's model takes SCIP tens of seconds."""
    return paper_window(3, Strategy.SCAS)


def solved(solver: ProgramSolver, problem: TopologyProblem, seconds: float | None = None) -> Result:
    result = solver.solve(problem, Budget(seconds), seed=0)
    verify_result(problem, result)
    return result


@pytest.mark.slow
def test_a_thousand_idle_nodes_and_fifty_jobs_are_within_a_percent_in_ten_seconds() -> None:
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.geometric(1 / 10, size=400))
    idle = np.flatnonzero(np.searchsorted(ends, np.arange(4000), side="right") % 2)[:1000]
    sizes = [2 + k * 32 // 49 for k in range(50)]
    assert sum(sizes) <= len(idle) == 1000
    problem = window(FatTree(40, 10, 10), idle, sizes, strategy=Strategy.SCAS)
    assert PACK["highs"].refusal(problem) is None
    result = solved(PACK["highs"], problem, 10.0)
    assert result.gap is not None
    assert result.gap <= 0.01


@pytest.mark.parametrize("hop_cost", [LEAST_HOP_COST, LARGEST_HOP_COST])
def test_the_proof_holds_whatever_a_hop_costs(pack_solver: ProgramSolver, hop_cost: float) -> None:
    problem = paper_window(5, Strategy.SCAS)
    scaled = window(problem.topology, problem.idle_nodes, problem.sizes.tolist(), hop_cost, Strategy.SCAS)
    expected, result = solved(PACK["scip"], problem), solved(pack_solver, scaled)
    assert expected.status is result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(expected.objective * hop_cost / 1000.0, rel=1e-9)


@pytest.mark.slow
def test_a_limit_stops_a_search_that_takes_longer(hard: TopologyProblem) -> None:
    result = solved(EVERY["scip-paper"], hard, 1.0)
    assert result.status is Status.FEASIBLE
    assert result.stopped_by is StopReason.TIME_LIMIT
    exact = solved(PACK["scip"], hard).objective
    assert result.bound is not None
    assert exact is not None
    assert result.bound <= exact * (1 + 1e-9)


def test_improvements_are_shown_while_the_search_goes_on(hard: TopologyProblem) -> None:
    seen = []
    result = ScipPack().solve(hard, Budget(), 0, on_incumbent=seen.append)
    assert tuple(seen) == result.incumbents
    assert len(seen) > 1


def test_cancelled_jobs_are_logged_and_no_incumbent(caplog: pytest.LogCaptureFixture) -> None:
    idle = [node for node in range(60) if node % 7 not in (2, 5)]
    problem = window(FatTree(3, 4, 5), idle, [10, 9, 8], strategy=Strategy.SCAS)
    with caplog.at_level(logging.INFO, logger="formulations"):
        result = solved(EVERY["scip-paper --cancel"], problem)
    assert "a solution cancels 1 of 3 jobs" in caplog.text
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(solved(PACK["highs"], problem).objective)


def test_a_problem_beyond_the_largest_size_is_refused_at_once() -> None:
    problem = window(FatTree(100, 100, 10), range(100_000), [1000] * 50 + [10], strategy=Strategy.SCAS)
    for solver in EVERY.values():
        with pytest.raises(UsageError, match="nonzeros, the largest taken has"):
            solve(problem, solver=solver)


def test_the_cancel_variables_are_an_option() -> None:
    assert get_solver("scip-paper", {"cancel": True}) == ScipPaper(cancel=True)


@pytest.mark.slow
def test_the_parent_process_loads_no_back_end() -> None:
    script = (
        "import sys, formulations.topology.integer as s; s.ScipPack().is_available(); s.CpSatPack().version\n"
        "print(sorted({'pyscipopt', 'ortools', 'pandas', 'scipy.optimize'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


SCRIPT = """
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.cluster.topology import FatTree
from allocopt.solving.solve import solve
idle = [k for k in range(60) if k % 7 not in (2, 5)]
problem = TopologyProblem(FatTree(3, 4, 5), idle, tuple(Job(str(k), 3 + k) for k in range(5)))
for name in ("scip", "highs", "cp-sat"):
    print(name, solve(problem, "scas", name).status)
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


@pytest.fixture
def new_children() -> None:
    """End the children that other tests have left."""
    pool_of.cache_clear()


def children_of(parent: int) -> set[int]:
    """Find the processes that a process has started and that have not ended."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, owner = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(owner) == parent and state != "Z":
            children.add(int(stat.parent.name))
    return children


def gone(pids: set[int]) -> bool:
    """Whether the processes end, which takes them a moment."""
    for _ in range(PATIENCE):
        states = [Path(f"/proc/{pid}/stat") for pid in pids]
        if not any(path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z" for path in states):
            return True
        time.sleep(0.02)
    return False


def started_by(parent: int, known: set[int]) -> set[int]:
    """Wait for new children of a process."""
    for _ in range(PATIENCE):
        if new := children_of(parent) - known:
            return new
        time.sleep(0.02)
    raise AssertionError("no child process was started")


def wait_until_busy(children: set[int]) -> None:
    """Wait until each of these processes has worked for a second, on a busy machine too: by then it solves."""
    for pid in children:
        for _ in range(PATIENCE):
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            if int(user) + int(system) >= os.sysconf("SC_CLK_TCK"):
                break
            time.sleep(0.02)


class During(threading.Thread):
    """Sends a signal to the process that solves, or its child, when the child is busy."""

    def __init__(self, number: int, target: str) -> None:
        super().__init__()
        self.children: set[int] = set()
        self._number = number
        self._target = target
        self._known = children_of(os.getpid())
        self.start()

    def run(self) -> None:
        self.children = started_by(os.getpid(), self._known)
        wait_until_busy(self.children)
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
    assert solved(solver, easy).status is Status.OPTIMAL


PARENT = """
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.cluster.topology import FatTree
from allocopt.solving.solve import solve
problem = TopologyProblem(FatTree(10, 10, 10), [k for k in range(400) if k % 9 not in (2, 5)],
    tuple(Job(str(k), 20 + 3 * k) for k in range(6)))
solve(problem, "scas", "scip-paper", time_limit=None)
"""


@pytest.mark.slow
@needs_proc
def test_no_child_outlives_its_parent_even_in_a_solve() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT])
    children = started_by(parent.pid, set())
    wait_until_busy(children)
    assert children_of(parent.pid) == children
    parent.kill()
    parent.wait()
    assert gone(children)


@pytest.mark.slow
@needs_proc
def test_a_child_stays_for_the_next_solve_of_whichever_solver(new_children: None) -> None:
    known = children_of(os.getpid())
    problem = paper_window(13, Strategy.SCAS)
    solved(HighsPack(), problem)
    first = children_of(os.getpid()) - known
    solved(HighsPack(), problem)
    assert children_of(os.getpid()) - known == first
    assert len(first) == 1
    pool_of.cache_clear()
    assert gone(first)
