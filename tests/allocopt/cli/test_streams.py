"""Standard output holds answers only; Ctrl-C, pipes, full disks and odd encodings end without a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.program import Run, Start
from support.sweeps import members, wait_for
from support.windows import window

from allocopt.cluster.topology import FatTree

pytestmark = pytest.mark.slow


PYTHON = sys.executable
FULL = Path("/dev/full")
SOLVE = ["solve", "@tiny", "--solver", "sequential"]


def test_native_solvers_print_nothing_between_the_rows(spawn: Run, tiny: Path) -> None:
    verbose = spawn("solve", tiny, "--solver", "scip", "--strategy", "scas", "--json", "--verbose")
    assert [row["status"] for row in verbose.rows] == ["OPTIMAL"]
    assert verbose.lines_of_error[0].startswith("allocopt ")
    assert verbose.lines_of_error[-1].startswith("verified   solution valid, bound stated by SCIP")
    solvers = ["scip", "highs", "cp-sat"]
    answer = spawn("bench", tiny, "--solvers", ",".join(solvers), "--json")
    assert answer.code == 0
    assert [(row["solver"], row["status"]) for row in answer.rows] == [(solver, "OPTIMAL") for solver in solvers]


@pytest.mark.parametrize(("arguments", "unbuffered"), [(["schema"], ""), (["schema"], "1"), ([*SOLVE, "--json"], "")])
def test_a_reader_that_has_gone_is_no_error_to_speak_of(start: Start, arguments: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*arguments, stdout=writing, variables={"PYTHONUNBUFFERED": unbuffered})
    os.close(writing)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (1, "")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("arguments", "unbuffered"), [(["schema"], ""), (["schema"], "1"), ([*SOLVE, "--json"], "")])
def test_standard_output_without_room_is_one_line(spawn: Run, arguments: list[str], unbuffered: str) -> None:
    with FULL.open("w", encoding="utf-8") as full:
        answer = spawn(*arguments, stdout=full, variables={"PYTHONUNBUFFERED": unbuffered})
    assert answer.code == 1
    assert answer.lines_of_error == ["allocopt: the system refused: No space left on device"]


@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str, tiny: Path, tmp_path: Path) -> None:
    options = f"--solver scip --strategy scas --solution '{tmp_path / 'out'}' --json --verbose"
    solve = f"'{PYTHON}' -m allocopt solve '{tiny}' {options}"
    done = subprocess.run(["sh", "-c", f"{solve} {closed}"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0
    assert len(list((tmp_path / "out").iterdir())) == 1
    assert len(done.stdout.splitlines()) == (0 if ">&-" in closed.replace("2>&-", "") else 1)
    assert "Traceback" not in done.stderr


def test_an_error_without_standard_error_stays_off_standard_output() -> None:
    command = f"'{PYTHON}' -m allocopt solve no-such-file 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_name_that_the_terminal_cannot_show_is_escaped(spawn: Run, save: Callable[..., Path]) -> None:
    named = save(window(FatTree(1, 1, 4), range(4), [2], name="fenêtre-日本"), name="window.json")
    answer = spawn("solve", named, "--solver", "sequential", variables={"PYTHONIOENCODING": "ascii"})
    assert answer.code == 0
    assert answer.out.startswith("fen\\xeatre-\\u65e5\\u672c  free  sequential  FEASIBLE")


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@pytest.mark.parametrize("written", ["solution", "export", "rows"])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(run: Run, tiny: Path, tmp_path: Path, written: str) -> None:
    import resource

    folder = tmp_path / "out"
    folder.mkdir()
    names = {"solution": "tiny-fat-tree-0.json", "export": "model.mps", "rows": "rows.csv"}
    old = folder / names[written]
    old.write_text("old", encoding="utf-8")
    arguments = {
        "solution": ["solve", tiny, "--iterations", "1", "--solution", folder],
        "export": ["solve", tiny, "--solver", "scip", "--strategy", "scas", "--export", old],
        "rows": ["bench", tiny, "--solvers", "sequential:free", "--out", old],
    }
    # Kernels must be compiled by now: that writes files too.
    assert run("solve", tiny, "--iterations", "1").code == 0
    # A full disk, made of a limit that no file of these commands keeps.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        answer = run(*arguments[written])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert answer.code == 3
    (line,) = answer.lines_of_error
    # Rows are kept in SQLite, which has words of its own for it.
    assert ("cannot be used: disk I/O error" if written == "rows" else "cannot be written: File too large") in line
    assert old.read_text(encoding="utf-8") == "old"
    assert not [path for path in folder.iterdir() if path.suffix == ".part"]


SECONDS = 120.0


@pytest.fixture
def hard(save: Callable[..., Path]) -> Path:
    """Window that the paper's model does not solve within a minute."""
    scattered = [node for node in range(1000) if node * node % 11 == 1]
    return save(window(FatTree(10, 10, 10), scattered, [21, 17, 13, 9, 19, 15], name="hard"), name="hard.json")


def children(session: int) -> list[int]:
    return [pid for pid in members(session) if pid != session]


def ignores_ctrl_c(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (mask,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def wait_for_the_search(process: Any) -> None:
    """Wait until the first improvement is printed."""
    while not re.match(r" +\d+\.\d{3}  ", line := process.stderr.readline()):
        assert line, "the program has ended"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("solver", "strategy", "whom"),
    [
        ("simanneal", "dcas", "the program"),
        ("annealing", "free", "its process group, as a terminal does"),
        ("scip-paper", "scas", "the program"),
        ("scip-paper", "scas", "its process group, as a terminal does"),
        ("scip-paper", "scas", "its process group, by SIGTERM, as Slurm does"),
    ],
)
def test_an_interruption_gives_the_best_so_far_and_no_later_instance_is_solved(
    start: Start, run: Run, hard: Path, tiny: Path, tmp_path: Path, solver: str, strategy: str, whom: str
) -> None:
    has_child = solver == "scip-paper"
    arguments = ("--solver", solver, "--strategy", strategy, "--time-limit", "120", "--iterations", "1000000000")
    folder = tmp_path / "solutions"
    more = ("--solution", folder, "--json", "--verbose")
    process = start("solve", hard, tiny, *arguments, *more, start_new_session=True)
    wait_for_the_search(process)
    assert not has_child or wait_for(lambda: any(map(ignores_ctrl_c, children(process.pid))))
    assert bool(children(process.pid)) == has_child
    if whom == "the program":
        process.send_signal(signal.SIGINT)
    else:
        os.killpg(process.pid, signal.SIGTERM if "SIGTERM" in whom else signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err
    (row,) = (json.loads(line) for line in out.splitlines())
    assert row["status"] == "INTERRUPTED"
    assert [path.name for path in folder.iterdir()] == ["hard.json"]
    verified = run("verify", hard, folder / "hard.json")
    assert verified.code == 0, verified.err
    assert f"objective {row['objective']:.12g}" in re.split("[;\n]|, ", verified.out)
    assert wait_for(lambda: not children(process.pid))
