"""The program, in this process through its `main`, and as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.program import Answer, Run, Start

from allocopt.cli.main import main
from allocopt.problems.instances import read_instances, write_problems
from allocopt.problems.topology import TopologyProblem

UNSET = ("COLUMNS", "PYTHONUNBUFFERED")
"""What a test run sets, and users mostly do not: output is buffered, and as wide as it likes."""

TOPOLOGY = "SwitchName=s1 Nodes=n[01-04]\nSwitchName=s2 Nodes=n[05-08]\nSwitchName=top Switches=s[1-2]\n"
JOBS = "job_id,submit,run,nodes,estimate\n" + "".join(
    f"{job},{job // 3 * 100},{300 + 40 * (job % 7)},{1 + job * 5 % 6},900\n" for job in range(1, 40)
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the program in this process; tests that run side by side set a width."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run_here(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["allocopt", *map(str, arguments)])
        # Where pytest is the program that runs, the usage would name it.
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run_here


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the program as a process of its own; whatever still runs at the end is killed."""
    processes: list[subprocess.Popen[str]] = []

    def start_there(*arguments: str | Path, variables: Mapping[str, str] | None = None, **settings: Any) -> Any:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        command = [sys.executable, "-m", "allocopt", *map(str, arguments)]
        inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
        processes.append(subprocess.Popen(command, env={**inherited, **(variables or {})}, text=True, **streams))
        return processes[-1]

    yield start_there
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def spawn(start: Start) -> Run:
    """Run the program as a process of its own."""

    def run_there(*arguments: str | Path, **settings: Any) -> Answer:
        process = start(*arguments, **settings)
        out, err = process.communicate(timeout=600)
        return Answer(process.returncode, out or "", err or "")

    return run_there


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write windows into an instance file."""

    def write(*problems: TopologyProblem, name: str = "windows.jsonl") -> Path:
        write_problems(tmp_path / name, problems)
        return tmp_path / name

    return write


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with a topology of eight nodes and a trace, in which the program runs."""
    (tmp_path / "topology.conf").write_text(TOPOLOGY, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tiny(save: Callable[..., Path]) -> Path:
    """File of the first shipped window."""
    return save(read_instances([Path("@tiny")])[0], name="tiny.json")
