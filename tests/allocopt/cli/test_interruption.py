"""Ctrl-C and SIGTERM: the best so far, its solution file, exit code 130, and no process left behind."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.windows import window

from allocopt.cluster.topology import FatTree

pytestmark = pytest.mark.slow

Run = Callable[..., Any]
Start = Callable[..., Any]

SECONDS = 120.0


@pytest.fixture
def hard(save: Callable[..., Path]) -> Path:
    """Window that the paper's model does not solve within a minute."""
    scattered = [node for node in range(1000) if node * node % 11 == 1]
    return save(window(FatTree(10, 10, 10), scattered, [21, 17, 13, 9, 19, 15], name="hard"), name="hard.json")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in text.split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def ignores_ctrl_c(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def wait_for_the_search(process: Any) -> None:
    """Wait until the first improvement is printed."""
    while " objective " not in (line := process.stderr.readline()):
        assert line, "the program has ended"


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("solver", "strategy", "has_child", "whom"),
    [
        ("simanneal", "dcas", False, "the program"),
        ("annealing", "free", False, "its process group, as a terminal does"),
        ("scip-paper", "scas", True, "the program"),
        ("scip-paper", "scas", True, "its process group, as a terminal does"),
        ("scip-paper", "scas", True, "its process group, by SIGTERM, as Slurm does"),
    ],
)
def test_an_interruption_gives_the_best_so_far(
    start: Start, run: Run, hard: Path, tmp_path: Path, solver: str, strategy: str, has_child: bool, whom: str
) -> None:
    arguments = ("--solver", solver, "--strategy", strategy, "--time-limit", "120", "--iterations", "1000000000")
    folder = tmp_path / "solutions"
    process = start("solve", hard, *arguments, "--solution", folder, "--json", "--verbose", start_new_session=True)
    wait_for_the_search(process)
    assert not has_child or wait_for(lambda: any(map(ignores_ctrl_c, children(process.pid))))
    left = children(process.pid)
    assert len(left) == has_child
    if whom == "the program":
        process.send_signal(signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGTERM if "SIGTERM" in whom else signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err
    (row,) = (json.loads(line) for line in out.splitlines())
    assert row["status"] == "INTERRUPTED"
    verified = run("verify", hard, folder / "hard.json")
    assert verified.code == 0, verified.err
    assert f"objective {row['objective']:.6f}" in verified.out
    assert wait_for(lambda: not any(map(is_running, left)))


def test_instances_after_the_interrupted_one_are_not_solved(
    start: Start, hard: Path, tiny: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "solutions"
    arguments = ("--solver", "simanneal", "--iterations", "1000000000", "--time-limit", "120", "--verbose")
    process = start("solve", hard, tiny, *arguments, "--solution", folder, "--json")
    wait_for_the_search(process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert [json.loads(line)["instance"] for line in out.splitlines()] == ["hard"]
    assert [path.name for path in folder.iterdir()] == ["hard.json"]


def test_a_command_without_anything_to_keep_says_that_it_was_interrupted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("allocopt.solving.registry.solver_names", interrupted)
    answer = run("solvers")
    assert (answer.code, answer.out, answer.err) == (130, "", "allocopt: interrupted\n")
