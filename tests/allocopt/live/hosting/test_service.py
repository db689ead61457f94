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
from typing import Any

import pytest
from support.control_groups import needs_control_groups
from support.virtual_slurm import until

from allocopt.live.hosting.control_groups import find_version
from allocopt.live.hosting.guests import Guest
from allocopt.live.hosting.hosts import Host
from allocopt.live.hosting.processes import Processes, started_at
from allocopt.live.hosting.service import HostingService, Limits
from allocopt.live.journal import Journal, read_journal
from allocopt.simulator.quota.scheduler import StaticSharing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm"), needs_control_groups]

IDLE, BUSY = "import time; time.sleep({})", "import time\nend = time.time() + {}\nwhile time.time() < end: pass"
STATIC = ("--policy", "static-50", "--period", "0.1")
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
    return list(find_version().mount.rglob(f"allocopt-guest-*-{service.pid}-*"))


def ended(service: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Wait for the end of a service, and return what it says of its guests."""
    out, err = service.communicate()
    assert service.returncode == 0, err
    return [row for line in out.splitlines() if "guest" in (row := json.loads(line))]


def events(tmp_path: Path) -> list[str]:
    path = tmp_path / "journal.jsonl"
    return [event["event"] for event in read_journal(path)] if path.exists() and path.stat().st_size else []


def test_guests_run_one_after_the_other_beside_an_idle_host(tmp_path: Path) -> None:
    with host(IDLE, 100) as idle:
        guests = guests_of(tmp_path, WORK.format(0.3), "raise SystemExit(4)", "print('done')")
        done = served(tmp_path, guests, "--process", str(idle.pid), *STATIC)
        rows = ended(done)
    found = [(row["guest"], row["state"], row["code"], row["pauses"]) for row in rows]
    assert found == [("g0", "ended", 0, 0), ("g1", "ended", 4, 0), ("g2", "ended", 0, 0)]
    assert (tmp_path / "g2.out").read_text() == "done\n"
    assert events(tmp_path).count("guest ended") == 3
    assert groups_of(done) == []
    status = [sys.executable, "-m", "allocopt", "live", "status", str(tmp_path / "journal.jsonl")]
    shown = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert "The service has ended" in shown
    assert "guest g1 has ended with exit code 4" in shown


def test_a_guest_has_the_environment_of_its_user(tmp_path: Path) -> None:
    with host(IDLE, 100) as idle:
        guests = guests_of(tmp_path, "import os; print(os.environ.get('OPENBLAS_NUM_THREADS'))")
        rows = ended(served(tmp_path, guests, "--process", str(idle.pid), *STATIC))
    assert [row["code"] for row in rows] == [0]
    assert (tmp_path / "g0.out").read_text() == f"{os.environ.get('OPENBLAS_NUM_THREADS')}\n"


def test_asax_gives_guests_quotas_and_remembers_what_it_learned(tmp_path: Path) -> None:
    knowledge = tmp_path / "knowledge.json"
    options = ("loss=degradation", "period_s=0.3", f"save_knowledge={knowledge}")
    with host(IDLE, 100) as idle:
        learned = [word for option in options for word in ("--option", option)]
        more = ("--process", str(idle.pid), "--limit", "1000", "--period", "0.1", "--for", "120", *learned)
        rows = ended(served(tmp_path, guests_of(tmp_path, WORK.format(1.0)), *more))
    assert [row["code"] for row in rows] == [0]
    placed = next(event for event in read_journal(tmp_path / "journal.jsonl") if event["event"] == "guest placed")
    assert placed["percent"] in range(10, 91)
    assert json.loads(knowledge.read_text())["format"] == "allocopt-asax"


def test_a_guest_is_paused_when_its_host_suffers_and_goes_on_when_it_has_rested(tmp_path: Path) -> None:
    with host(BUSY, 200) as busy:
        limits = ("--most-slowdown", "1.2", "--rest", "1", "--period", "0.2")
        guests = guests_of(tmp_path, BUSY.format(200))
        service = served(tmp_path, guests, "--process", str(busy.pid), "--policy", "static-50", *limits)
        until(lambda: events(tmp_path).count("guest paused") >= 2)
        # Whoever ends the service as Ctrl-C does ends the guests, too.
        service.terminate()
        service.communicate()
    names = [name for name in events(tmp_path) if name.startswith("guest") or name == "ended"]
    assert names[:3] == ["guest placed", "guest paused", "guest placed"]
    assert names[-2:] == ["guest killed", "ended"]
    assert groups_of(service) == []


def test_a_guest_goes_on_beside_another_host_when_its_host_ends(tmp_path: Path) -> None:
    with host(IDLE, 300) as first, host(IDLE, 300) as second:
        waits = (
            f"import pathlib, time\nwhile not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.05)\nprint('done')"
        )
        guests = guests_of(tmp_path, waits, WORK.format(0.1))
        service = served(tmp_path, guests, "--process", f"{first.pid},{second.pid}", *STATIC)
        until(lambda: events(tmp_path).count("guest placed") >= 2)
        (placed,) = [event for event in placements(tmp_path) if event["guest"] == "g0"]
        beside = first if placed["host"] == str(first.pid) else second
        beside.kill()
        until(lambda: [event["guest"] for event in placements(tmp_path)].count("g0") == 2)
        (tmp_path / "go").touch()
        rows = ended(service)
    assert [(row["code"], row["pauses"]) for row in rows] == [(0, 1), (0, 0)]
    assert (tmp_path / "g0.out").read_text() == "done\n"
    assert "host ended" in events(tmp_path)


def placements(tmp_path: Path) -> list[dict[str, Any]]:
    return [event for event in read_journal(tmp_path / "journal.jsonl") if event["event"] == "guest placed"]


def test_the_service_ends_when_no_host_is_left_and_none_can_come(tmp_path: Path) -> None:
    with host(IDLE, 300) as only:
        guests = guests_of(tmp_path, BUSY.format(300), "pass")
        service = served(tmp_path, guests, "--process", str(only.pid), *STATIC)
        until(lambda: "guest placed" in events(tmp_path))
        only.kill()
        rows = ended(service)
    assert [(row["state"], row["code"]) for row in rows] == [("killed", None), ("waiting", None)]


class Wide:
    """A host that has one core and may run on all; it is there until a guest has been refused."""

    are_all_known = True

    def __init__(self, pid: int, tmp_path: Path) -> None:
        self.host = Host("wide", "app", frozenset((pid,)), 1, time.time(), 100.0)
        self.tmp_path = tmp_path

    def running(self) -> list[Host]:
        return [] if "guest refused" in events(self.tmp_path) else [self.host]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_guest_is_refused_where_it_would_run_on_the_cores_of_others(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "300"]) as wide, Journal(tmp_path / "journal.jsonl") as journal:
        guests = [Guest("g", ("true",), "g")]
        limits = Limits(period_s=0.1, hosts_s=0.5, watch_first_s=0.2)
        outcomes = HostingService(StaticSharing(), Wide(wide.pid, tmp_path), guests, journal, limits).run()
        wide.kill()
    assert [one.state for one in outcomes] == ["waiting"]
    refused = [event for event in read_journal(tmp_path / "journal.jsonl") if event["event"] == "guest refused"]
    assert "may run on" in refused[0]["why"]


@pytest.mark.parametrize("kill_guard_too", [False, True])
def test_nothing_is_left_of_guests_after_sigkill(tmp_path: Path, kill_guard_too: bool) -> None:
    with host(IDLE, 200) as idle:
        guests = guests_of(tmp_path, f"import subprocess\nsubprocess.Popen(['sleep', '150'])\n{BUSY.format(150)}")
        words = ("--process", str(idle.pid), *STATIC)
        service = served(tmp_path, guests, *words)
        until(lambda: "guest placed" in events(tmp_path))
        (group,) = groups_of(service)
        until(lambda: len((group / "cgroup.procs").read_text().split()) == 2)
        left = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
        if kill_guard_too:
            for pid, parent in Processes.now().parents.items():
                if parent == service.pid and b"hosting.guard" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        service.kill()
        service.communicate()
        if kill_guard_too:
            # The next service finds what is left.
            assert group.exists()
            ended(served(tmp_path, guests_of(tmp_path, "pass"), *words))
        until(lambda: not group.exists())
        assert not any(started_at(pid) for pid in left)


def test_a_second_service_of_a_machine_is_refused(tmp_path: Path) -> None:
    with host(IDLE, 200) as idle:
        words = ("--process", str(idle.pid), *STATIC)
        first = served(tmp_path, guests_of(tmp_path, BUSY.format(200)), *words)
        until(lambda: "begun" in events(tmp_path))
        (tmp_path / "other").mkdir()
        second = served(tmp_path / "other", tmp_path / "guests.toml", *words)
        _, err = second.communicate()
        assert second.returncode == 2
        assert "another service runs guests on this machine" in err
        first.terminate()
        first.communicate()


def test_what_hosts_are_and_what_divides_cores_has_to_be_told(tmp_path: Path) -> None:
    guests = guests_of(tmp_path, "pass")
    with host(f"import subprocess\nsubprocess.Popen(['sleep', '100'])\n{IDLE}", 100) as idle:
        until(lambda: len(Processes.now().with_descendants([idle.pid])) == 2)
        (child,) = Processes.now().with_descendants([idle.pid]) - {idle.pid}
        for more, fault in (
            ((), "give exactly one of --slurm and --process"),
            (("--process", str(idle.pid), "--comment", "x"), "--comment needs --slurm"),
            (("--process", "x"), "'x' is not a process id"),
            (("--process", str(idle.pid), "--policy", "fcfs"), "does not divide cores"),
            (("--process", "999999999"), "process 999999999 does not exist"),
            (("--process", str(os.getpid())), "cannot be a host"),
            (("--process", f"{idle.pid},{child}"), f"process {child} was started by process {idle.pid}"),
        ):
            done = served(tmp_path, guests, *more)
            _, err = done.communicate()
            assert done.returncode == 2
            assert fault in err
        guests.write_text('[[guest]]\nname = "a"\ncommand = ["true"]\noutput = "/nowhere/a.out"\n')
        done = served(tmp_path, guests, "--process", str(idle.pid))
        _, err = done.communicate()
        assert (done.returncode, "/nowhere/a.out: No such file" in err) == (3, True)
        os.kill(child, signal.SIGKILL)
