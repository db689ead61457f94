"""Kernels are made ready by other processes, and a limit is kept while they are compiled."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numba import int64
from support import tiny_kernels

import allocopt
from allocopt.kernels import ready
from allocopt.kernels.compiled import Kernel
from allocopt.kernels.ready import all_kernels, make_ready
from allocopt.solving.protocol import get_solver
from allocopt.topology import Job, TopologyProblem


def fresh(name: str) -> Kernel:
    """Make a kernel as a new process has it, for others to find by its module and name."""
    made = getattr(tiny_kernels, name)
    return Kernel(made.py_func, int64(int64), {"_nrt": False})


@pytest.mark.slow
def test_other_processes_compile_what_no_file_has(folder: Path) -> None:
    kernels = [fresh("doubled"), fresh("tripled")]
    assert make_ready(kernels)
    assert [kernel(4) for kernel in kernels] == [14, 21]
    assert not any(kernel.stats.cache_misses for kernel in kernels)
    assert len(list(folder.glob("*.kernel"))) == 2


@pytest.mark.slow
def test_where_the_time_is_up_the_compilers_go_on_for_the_next_one(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = fresh("doubled")
    with caplog.at_level(logging.WARNING):
        assert not make_ready([kernel], 0.0)
    assert "the time limit ended" in caplog.text
    worker = ready._workers[kernel.word]
    assert not kernel.is_loaded
    assert make_ready([kernel])
    assert ready._workers[kernel.word] is worker
    assert not kernel.stats.cache_misses


def test_a_compiler_that_dies_is_replaced_by_the_process_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    kernel = fresh("doubled")
    assert make_ready([kernel])
    assert kernel(4) == 14


def test_a_solve_whose_kernels_are_not_compiled_in_time_gives_the_answer_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ready, "_compiled", lambda missing, seconds: seconds == float("inf"))
    monkeypatch.setattr("allocopt.solving.solve.load_stored", lambda kernels: None)
    monkeypatch.setattr("allocopt.solving.base.unloaded", list)
    window = TopologyProblem(
        topology=allocopt.FatTree(2, 2, 4),
        idle_nodes=np.arange(16),
        jobs=(Job("a", 5), Job("b", 6)),
    )
    result = allocopt.solve(window, strategy="free", solver="greedy", time_limit=1.0)
    assert result.status is allocopt.Status.FEASIBLE
    assert result.stopped_by is allocopt.solving.StopReason.TIME_LIMIT
    assert allocopt.solve(window, strategy="free", solver="greedy", time_limit=None).stopped_by != result.stopped_by


def test_every_entry_of_the_package_is_found() -> None:
    words = {kernel.word for kernel in all_kernels()}
    assert len(words) == len(all_kernels())
    solver = get_solver("lns")
    window = TopologyProblem(allocopt.FatTree(2, 2, 4), np.arange(16), (Job("a", 5),))
    asked = cast(list[Kernel], list(solver.kernels(window)))  # type: ignore[attr-defined]
    assert {kernel.word for kernel in asked} <= words


@pytest.mark.slow
def test_solvers_tell_of_all_kernels_that_they_call() -> None:
    # In a process of its own, in which nothing is loaded.
    seen = subprocess.run([sys.executable, "-c", CALLED], capture_output=True, text=True, check=True).stdout
    assert seen.splitlines() == ["[]"]


CALLED = """
from dataclasses import replace
from allocopt import read_problems, solve
from allocopt.kernels.compiled import Kernel
from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.solve import prepare

untold, load, is_told = [], Kernel.load, True


def noted(kernel):
    if not is_told and not kernel.is_loaded:
        untold.append((name, kernel.word))
    load(kernel)


Kernel.load = noted
three_levels, _, four_levels = read_problems("@tiny")
windows = [
    window.with_strategy(strategy) for window in (three_levels, four_levels) for strategy in ("scas", "dcas", "free")
]
ruled = [replace(window, fragmentation_weight=1.0) for window in windows if window.strategy == "free"]
problems = [*windows, *ruled, *read_problems("@knapsacks")]
for name, kind in [(name, kind) for kind in ('topology', 'knapsack') for name in solver_names(kind)]:
    solver = get_solver(name, None, kind)
    for problem in problems:
        if problem.kind == kind and solver.takes(problem) and solver.refusal(problem) is None:
            prepare(solver, [problem])
            is_told = False
            solve(problem, solver=solver, time_limit=1.0, iterations=20)
            is_told = True
print(untold)
"""


def test_kernels_of_trainings_are_left_out_where_torch_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {entry.__name__ for entry in all_kernels()}
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "allocopt.learned.nsa.learner")
    plain = {entry.__name__ for entry in all_kernels()}
    assert plain
    assert plain < whole
