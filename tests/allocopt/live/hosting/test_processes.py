"""Processes are counted from look to look, those that started in between from their start."""

import os
import subprocess
import sys
from pathlib import Path

from allocopt.live.hosting.processes import Watch, is_alive, with_descendants


def write(proc: Path, pid: int, threads: dict[int, tuple[int, int]], pages: int = 1, parent: int = 1) -> None:
    folder = proc / str(pid)
    (folder / "task").mkdir(parents=True, exist_ok=True)
    (folder / "statm").write_text(f"100 {pages} 0 0 0 0 0\n")
    (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0\n")
    for thread, (run, delay) in threads.items():
        (folder / "task" / str(thread)).mkdir(exist_ok=True)
        (folder / "task" / str(thread) / "schedstat").write_text(f"{run} {delay} 5\n")


def test_a_look_counts_what_happened_since_the_last_one(tmp_path: Path) -> None:
    watch = Watch()
    write(tmp_path, 7, {7: (10**9, 10**9)}, pages=3)
    first = watch.look([7], tmp_path)
    assert (first.run_s, first.delay_s, first.memory_bytes) == (0, 0, 3 * os.sysconf("SC_PAGE_SIZE"))
    write(tmp_path, 7, {7: (3 * 10**9, 10**9), 8: (10**9, 5 * 10**8)})
    write(tmp_path, 9, {9: (5 * 10**8, 0)})
    then = watch.look([7, 9, 10], tmp_path)
    assert (round(then.run_s, 9), round(then.delay_s, 9)) == (3.5, 0.5)


def test_what_processes_started_is_found_through_any_name(tmp_path: Path) -> None:
    write(tmp_path, 7, {})
    write(tmp_path, 8, {}, parent=7)
    write(tmp_path, 9, {}, parent=8)
    write(tmp_path, 10, {}, parent=1)
    assert with_descendants([7], tmp_path) == {7, 8, 9}
    assert with_descendants([11], tmp_path) == frozenset()


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert is_alive(os.getpid())
    child.stdout.read()
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    assert not is_alive(child.pid)
    child.wait()
    assert not is_alive(child.pid)
