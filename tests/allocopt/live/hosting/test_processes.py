"""Processes are counted from look to look, those that started in between from their start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from allocopt.live.hosting.processes import Kin, Processes, Watch, started_at


def write(
    proc: Path, pid: int, threads: dict[int, tuple[int, int]], pages: int = 1, parent: int = 1, started: int = 5
) -> None:
    """Write what /proc says of a process; times of threads in milliseconds."""
    folder = proc / str(pid)
    (folder / "task").mkdir(parents=True, exist_ok=True)
    (folder / "statm").write_text(f"100 {pages} 0 0 0 0 0\n")
    (folder / "stat").write_bytes(
        f"{pid} (a (b) ".encode() + b"\xff) " + f"S {parent} {'0 ' * 17}{started} 0\n".encode()
    )
    for thread, (run, delay) in threads.items():
        (folder / "task" / str(thread)).mkdir(exist_ok=True)
        (folder / "task" / str(thread) / "schedstat").write_text(f"{run}000000 {delay}000000 5\n")


def test_a_look_counts_what_happened_since_the_last_one(tmp_path: Path) -> None:
    watch = Watch()
    write(tmp_path, 7, {7: (1000, 1000)}, pages=3)
    first = watch.look([7], 1.0, tmp_path)
    assert (first.run_s, first.delay_s, first.memory_bytes) == (0, 0, 3 * os.sysconf("SC_PAGE_SIZE"))
    write(tmp_path, 7, {7: (3000, 1000), 8: (1000, 500)})
    write(tmp_path, 9, {9: (500, 0)})
    then = watch.look([7, 9, 10], 4.0, tmp_path)
    assert (round(then.run_s, 9), round(then.delay_s, 9)) == (3.5, 0.5)


def test_a_job_is_as_slow_as_its_slowest_busy_thread(tmp_path: Path) -> None:
    watch = Watch()
    write(tmp_path, 7, {7: (0, 0), 8: (0, 0), 9: (0, 0)})
    watch.look([7], 1.0, tmp_path)
    # One of three threads waits half of its time; a fourth one is hardly ever ready to run.
    write(tmp_path, 7, {7: (1000, 0), 8: (1000, 0), 9: (500, 500), 10: (1, 99)})
    use = watch.look([7], 1.0, tmp_path)
    assert (use.share, use.busy) == pytest.approx((0.5, 1.0))
    # Where no thread is busy, all count together.
    write(tmp_path, 7, {7: (1010, 10), 8: (1010, 0), 9: (510, 510), 10: (1, 99)})
    use = watch.look([7], 1.0, tmp_path)
    assert (use.share, use.busy) == pytest.approx((0.6, 0.05))


def test_what_processes_started_belongs_to_them_even_after_they_have_ended(tmp_path: Path) -> None:
    kin = Kin()
    for pid, parent in ((7, 1), (8, 7), (9, 8), (10, 1)):
        write(tmp_path, pid, {}, parent=parent)
    assert Processes.now(tmp_path).with_descendants([7]) == {7, 8, 9}
    assert Processes.now(tmp_path).with_descendants([11]) == set()
    assert kin.alive([7], Processes.now(tmp_path)) == {7, 8, 9}
    # 8 ends, 9 is adopted, and a later process has got the number 7.
    (tmp_path / "8" / "stat").write_text("8 (x) Z 7 0\n")
    write(tmp_path, 9, {}, parent=1)
    write(tmp_path, 7, {}, started=99)
    assert kin.alive([7], Processes.now(tmp_path)) == {9}


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert started_at(child.pid) == Processes.now().started[child.pid]
    assert started_at(os.getpid()) is not None
    assert child.stdin is not None
    child.stdin.close()
    child.stdout.read()
    while started_at(child.pid) is not None:
        pass
    assert child.pid not in Processes.now().parents
    child.wait()
    child.stdout.close()
