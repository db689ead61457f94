"""Real guests beside real hosts: they run to their end, give way when a host suffers or ends, and leave nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.control_groups import needs_control_groups
from support.virtual_slurm import until

from allocopt.live.hosting.control_groups import find_version
from allocopt.live.journal import read_journal

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm"), needs_control_groups]

IDLE, BUSY = "import time; time.sleep({})", "import time\nend = time.time() + {}\nwhile time.time() < end: pass"
WORK = "import time\nwhile time.process_time() < {}: pass"


@contextmanager
def host(program: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run a host on one core."""
    code = f"import os; os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})\n{program.format(seconds)}"
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        try:
            yield running
        finally:
            running.kill()


def guests_of(tmp_path: Path, *programs: str) -> Path:
    path = tmp_path / "guests.toml"
    lines = []
    for number, program in enumerate(programs):
        command = json.dumps([sys.executable, "-c", program])
        lines.append(f'[[guest]]\nname = "g{number}"\noutput = "{tmp_path}/g{number}.out"\ncommand = {command}\n')
    path.write_text("\n".join(lines))
    return path


def served(tmp_path: Path, guests: Path, *more: str) -> subprocess.Popen[str]:
    words = ["live", "guests", str(guests), "--journal", str(tmp_path / "journal.jsonl"), "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "allocopt", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def groups_of(service: subprocess.Popen[str]) -> list[Path]:
    parent, _ = find_version().parent_of_guests(os.getpid())
    return list(parent.glob(f"allocopt-guest-{service.pid}-*"))


def events(tmp_path: Path) -> list[str]:
    path = tmp_path / "journal.jsonl"
    return [event["event"] for event in read_journal(path)] if path.exists() and path.stat().st_size else []


def test_guests_run_one_after_the_other_beside_an_idle_host(tmp_path: Path) -> None:
    with host(IDLE, 100) as idle:
        guests = guests_of(tmp_path, WORK.format(0.3), "raise SystemExit(4)", WORK.format(0.3))
        done = served(tmp_path, guests, "--process", str(idle.pid), "--policy", "static-50", "--period", "0.1")
        out, err = done.communicate()
    assert done.returncode == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["guest"], row["code"], row["pauses"]) for row in rows] == [("g0", 0, 0), ("g1", 4, 0), ("g2", 0, 0)]
    assert events(tmp_path).count("guest ended") == 3
    assert groups_of(done) == []


def test_asax_gives_guests_quotas(tmp_path: Path) -> None:
    with host(IDLE, 100) as idle:
        guests, learned = (
            guests_of(tmp_path, WORK.format(1.0)),
            ("--option", "loss=degradation", "--option", "period_s=0.3"),
        )
        more = ("--process", str(idle.pid), "--limit", "1000", "--period", "0.1", *learned)
        done = served(tmp_path, guests, *more)
        out, err = done.communicate()
    assert done.returncode == 0, err
    assert json.loads(out)["code"] == 0
    placed = next(event for event in read_journal(tmp_path / "journal.jsonl") if event["event"] == "guest placed")
    assert placed["percent"] in range(10, 91)


def test_a_guest_is_paused_when_its_host_suffers_and_goes_on_when_it_has_rested(tmp_path: Path) -> None:
    with host(BUSY, 100) as busy:
        limits = ("--most-slowdown", "1.2", "--rest", "1", "--period", "0.2")
        guests = guests_of(tmp_path, BUSY.format(100))
        service = served(tmp_path, guests, "--process", str(busy.pid), "--policy", "static-50", *limits)
        until(lambda: events(tmp_path).count("guest paused") >= 2)
        # Ctrl-C ends the guests, too.
        service.send_signal(signal.SIGINT)
        service.communicate()
    told = list(read_journal(tmp_path / "journal.jsonl"))
    names = [event["event"] for event in told]
    assert names.index("guest placed") < names.index("guest paused") < names.index("guest paused", 3)
    assert names[-1] == "guest killed"
    assert groups_of(service) == []


def test_a_guest_goes_on_beside_another_host_when_its_host_ends(tmp_path: Path) -> None:
    with host(IDLE, 4) as first, host(IDLE, 100) as second:
        guests = guests_of(tmp_path, WORK.format(2.5), WORK.format(0.1))
        pids = f"{first.pid},{second.pid}"
        done = served(tmp_path, guests, "--process", pids, "--policy", "static-50", "--period", "0.2")
        first.wait()
        out, err = done.communicate()
    assert done.returncode == 0, err
    assert [json.loads(line)["code"] for line in out.splitlines()] == [0, 0]
    assert "host ended" in events(tmp_path)


@pytest.mark.parametrize("kill_guard_too", [False, True])
def test_nothing_is_left_of_guests_after_sigkill(tmp_path: Path, kill_guard_too: bool) -> None:
    with host(IDLE, 200) as idle:
        guests = guests_of(tmp_path, f"import subprocess\nsubprocess.Popen(['sleep', '150'])\n{BUSY.format(150)}")
        words = ("--process", str(idle.pid), "--policy", "static-50", "--period", "0.1")
        service = served(tmp_path, guests, *words)
        until(lambda: "guest placed" in events(tmp_path))
        (group,) = groups_of(service)
        until(lambda: len((group / "cgroup.procs").read_text().split()) == 2)
        if kill_guard_too:
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                if b"hosting.guard" in line.read_bytes() and int(line.parent.name) != os.getpid():
                    os.kill(int(line.parent.name), signal.SIGKILL)
        killed = time.monotonic()
        service.kill()
        service.communicate()
        if kill_guard_too:
            # The next service finds what is left.
            again = served(tmp_path, guests_of(tmp_path, "pass"), *words)
            assert again.wait() == 0
        until(lambda: not group.exists())
        assert kill_guard_too or time.monotonic() - killed < 60


def test_what_hosts_are_and_what_divides_cores_has_to_be_told(tmp_path: Path) -> None:
    guests = guests_of(tmp_path, "pass")
    for more, fault in (
        ((), "--slurm and --process"),
        (("--process", "1", "--comment", "x"), "--comment"),
        (("--process", "x"), "takes numbers of processes"),
        (("--process", "1", "--policy", "fcfs"), "does not divide cores"),
        (("--process", "999999999"), "there is no process 999999999"),
    ):
        done = served(tmp_path, guests, *more)
        _, err = done.communicate()
        assert done.returncode == 2
        assert fault in err
