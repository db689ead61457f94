"""The service beside a real Slurm: what it pins starts there, what it holds is free again however it ends."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.virtual_slurm import WAIT_S, a_clean, events, slurm_of, until

from allocopt.live.journal import Replay, read_journal
from allocopt.live.slurm import Slurm
from benchmarks.virtual_slurm import VirtualSlurm

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def slurm() -> Iterator[VirtualSlurm]:
    main, other = "PartitionName=main Nodes=ALL Default=YES", "PartitionName=other Nodes=ALL"
    with slurm_of(partitions=f"{main} OverSubscribe=EXCLUSIVE\n{other} OverSubscribe=EXCLUSIVE") as cluster:
        yield cluster


def runs(slurm: VirtualSlurm, job: str) -> bool:
    return job in slurm.said("squeue", "-h", "-t", "R", "-o", "%i").split()


def started(slurm: VirtualSlurm, journal: Path, *more: str) -> subprocess.Popen[str]:
    # Of two periods the last one holds.
    command = [sys.executable, "-m", "allocopt", "live", "slurm", "--journal", str(journal), "--period", "0.5", *more]
    return subprocess.Popen(command, env=slurm.env, stderr=subprocess.PIPE, text=True)


@contextmanager
def serving(slurm: VirtualSlurm, journal: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a service, which has begun, and end it if it has not ended."""
    service = started(slurm, journal, *more)
    try:
        until(lambda: service.poll() is not None or b"begun" in journal.read_bytes() if journal.exists() else False)
        assert service.poll() is None, service.communicate()[1]
        yield service
    except AssertionError as error:
        error.add_note(situation(slurm, service, journal))
        raise
    finally:
        service.terminate()
        service.communicate(timeout=WAIT_S)


def situation(slurm: VirtualSlurm, service: subprocess.Popen[str], journal: Path) -> str:
    """Say how a service and its Slurm are, where something did not happen."""
    ended = service.poll()
    assert service.stderr is not None
    complaint = "" if ended is None or service.stderr.closed else service.stderr.read()
    said = f"the service has ended with {ended}: {complaint}"
    told = (slurm.said(*command) for command in (("squeue", "-a", "-t", "all"), ("sinfo", "-N")))
    files = (journal, slurm.folder / "slurmctld.log")
    return "\n".join((said, *told, *(f"{file.name}:\n{file.read_text()[-4000:]}" for file in files)))


def marks(slurm: VirtualSlurm) -> list[str]:
    return [job.id for job in Slurm(slurm.env).look().jobs if job.is_marked and job.state == "PENDING"]


def test_jobs_that_wait_start_on_the_nodes_that_were_chosen(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        with serving(slurm, journal, "--pin", "--partition", "main"):
            blocker = slurm.submitted(16, 1000, "-p", "other")
            until(lambda: runs(slurm, blocker))
            jobs = [slurm.submitted(nodes, 2) for nodes in (3, 5, 7, 2)]
            left = slurm.submitted(2, 1, "-p", "other")
            until(lambda: len(events(journal, "held")) >= len(jobs))
            slurm.said("scancel", blocker)
            until(lambda: {event["job"] for event in events(journal, "started")} >= {*jobs, left})
        assert marks(slurm) == []
    found = Replay.of(journal)
    assert not found.wrong
    assert found.proved == found.windows > 0
    assert {event["job"] for event in events(journal, "pinned")} == set(jobs)
    assert found.as_pinned == len(jobs)
    assert left not in {event["job"] for event in events(journal, "held")}


def test_tasks_of_an_array_start_where_they_are_pinned_and_no_more_than_it_lets_at_once(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        with serving(slurm, journal, "--pin", "--partition", "main"):
            blocker = slurm.submitted(16, 1000, "-p", "other")
            until(lambda: runs(slurm, blocker))
            array = slurm.submitted(5, 2, "--array=1-7:2%2")
            until(lambda: marks(slurm) == [f"{array}_1", f"{array}_3"])
            (held,) = events(journal, "held")
            assert held["job"] == f"{array}_[1,3,5,7]"
            slurm.said("scancel", blocker)
            tasks = {f"{array}_{task}" for task in (1, 3, 5, 7)}
            until(lambda: {event["job"] for event in events(journal, "started")} >= tasks)
        assert marks(slurm) == []
    found = Replay.of(journal)
    assert not found.wrong
    assert found.as_pinned == len(tasks)
    first, last = ([event for event in events(journal, "started") if event["job"] in tasks][at] for at in (0, -1))
    assert last["start_s"] - first["start_s"] >= 2


def test_jobs_that_share_nodes_start_where_they_are_pinned(tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with slurm_of(8, cores=4) as shared:

        def tasks(count: int, seconds: float) -> str:
            options = ("-n", str(count), "-t", "1", "-o", "/dev/null", "--wrap", f"exec sleep {seconds:g}")
            return shared.said("sbatch", "--parsable", *options)

        running = [tasks(count, 1000) for count in (3, 6, 23)]
        until(lambda: all(runs(shared, job) for job in running))
        with serving(shared, journal, "--pin", "--partition", "main"):
            # The third one waits for the first two, and the others go on beside it.
            jobs = [tasks(count, 1) for count in (10, 7, 12, 3, 2, 1)]
            until(lambda: set(marks(shared)) == set(jobs))
            shared.said("scancel", running[-1])
            until(lambda: {event["job"] for event in events(journal, "started")} >= {*jobs})
    found = Replay.of(journal)
    assert not found.wrong
    assert found.as_pinned == len(jobs)


def test_a_file_that_changes_brings_the_next_look_at_once(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal, wake = tmp_path / "j.jsonl", tmp_path / "wake"
    with a_clean(slurm):
        times = ("--period", "4000", "--hold", "8000", "--wake", str(wake))
        with serving(slurm, journal, "--pin", "--partition", "main", *times):
            slurm.submitted(16, 1000, "-p", "other")
            job = slurm.submitted(4, 1)
            until(lambda: wake.touch() or marks(slurm) == [job])
        assert marks(slurm) == []


def test_a_killed_service_leaves_nothing_held(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000, "-p", "other")
        with serving(slurm, journal, "--pin", "--partition", "main", "--hold", "1000") as service:
            job = slurm.submitted(4, 1)
            until(lambda: marks(slurm) == [job])
            service.kill()
            until(lambda: marks(slurm) == [])
        slurm.said("scancel", blocker)
        until(lambda: job not in slurm.said("squeue", "-h", "-o", "%i").split())
    assert next(read_journal(journal))["event"] == "begun"


def test_a_node_that_drains_gives_its_job_free(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        # It is pinned where it cannot start, as if the node had drained a moment later.
        blocker = slurm.submitted(15, 1000)
        job = slurm.submitted(2, 1, "--hold")
        mark = f"AdminComment=allocopt priority=1 pinned={int(time.time())}"
        slurm.said("scontrol", "update", f"JobId={job}", "ReqNodeList=n[0003-0004]", mark)
        slurm.said("scontrol", "update", "NodeName=n0004", "State=DRAIN", "Reason=test")
        slurm.said("scontrol", "release", job)
        try:
            with serving(slurm, journal, "--pin", "--partition", "main", "--pin-for", "1000"):
                until(lambda: events(journal, "unpinned"))
                slurm.said("scancel", blocker)
                until(lambda: job in {event["job"] for event in events(journal, "started")})
        finally:
            slurm.said("scontrol", "update", "NodeName=n0004", "State=RESUME")
    (unpinned,) = events(journal, "unpinned")
    assert unpinned["why"] == "node n0004 is not up"


def test_a_slurmctld_that_restarts_is_waited_for(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm), serving(slurm, journal, "--advise") as service:
        slurm.restart()
        job = slurm.submitted(3, 1)
        until(lambda: job in {event["job"] for event in events(journal, "started")})
        assert service.poll() is None


# Once a service has begun, scontrol fails for a second without a word, as it may while slurmctld restarts.
SILENT = """\
#!/bin/sh
grep -q '"begun"' {journal} 2>/dev/null || exec {scontrol} "$@"
test -e {since} || date +%s > {since}
test $(( $(date +%s) - $(cat {since}) )) -gt 1 || exit 1
exec {scontrol} "$@"
"""


def test_a_service_that_has_begun_waits_for_a_slurm_that_fails_without_a_word(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    journal = tmp_path / "j.jsonl"
    scontrol = slurm.said("which", "scontrol")
    (tmp_path / "scontrol").write_text(SILENT.format(journal=journal, scontrol=scontrol, since=tmp_path / "since"))
    (tmp_path / "scontrol").chmod(0o755)
    silent = replace(slurm, env={**slurm.env, "PATH": f"{tmp_path}:{slurm.env['PATH']}"})
    with a_clean(slurm), serving(silent, journal, "--advise") as service:
        until(lambda: service.poll() is not None or events(journal, "away"))
        job = slurm.submitted(3, 1)
        until(lambda: service.poll() is not None or job in {event["job"] for event in events(journal, "started")})
        assert service.poll() is None, service.communicate()[1]
    assert "scontrol -o show: no message, exit code 1" == events(journal, "away")[0]["why"]


def test_a_second_service_of_a_cluster_is_refused(slurm: VirtualSlurm, tmp_path: Path) -> None:
    with a_clean(slurm), serving(slurm, tmp_path / "1.jsonl", "--observe"):
        second = started(slurm, tmp_path / "2.jsonl", "--observe")
        assert "another service manages cluster virtual" in second.communicate(timeout=WAIT_S)[1]
        assert second.returncode == 2


def test_the_second_service_on_another_machine_ends_and_leaves_jobs_to_the_first(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    # The lock is a file of the machine.
    elsewhere = replace(slurm, env={**slurm.env, "TMPDIR": str(tmp_path)})
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000, "-p", "other")
        pinning = ("--pin", "--partition", "main", "--hold", "1000")
        # The second sees the next job first.
        with serving(slurm, tmp_path / "1.jsonl", *pinning, "--period", "3"):
            held = slurm.submitted(4, 1)
            until(lambda: marks(slurm) == [held])
            with serving(elsewhere, tmp_path / "2.jsonl", *pinning) as second:
                # What the first held before might be one's that was killed.
                time.sleep(1)
                assert second.poll() is None
                job = slurm.submitted(4, 1)
                said = second.communicate(timeout=WAIT_S)[1]
            assert second.returncode == 2
            assert "on another machine, manages jobs of this cluster" in said
            assert set(marks(slurm)) == {held, job}
            slurm.said("scancel", blocker)
            until(lambda: {event["job"] for event in events(tmp_path / "1.jsonl", "started")} >= {held, job})
    assert Replay.of(tmp_path / "1.jsonl").as_pinned == 2


# An answer as newer versions give it to those who do not ask for all states.
WITHOUT_ENDED_JOBS = """\
#!{python}
import json, subprocess, sys
answer = subprocess.run(["{squeue}", *sys.argv[1:]], capture_output=True, text=True, check=True).stdout
if "--json" in sys.argv:
    told = json.loads(answer)
    listed = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
    answer = json.dumps({{"jobs": [job for job in told["jobs"] if job["job_state"] in listed]}})
print(answer)
"""


def test_jobs_that_end_unseen_are_reported_where_slurm_lists_no_ended_jobs(slurm: VirtualSlurm, tmp_path: Path) -> None:
    squeue = slurm.said("which", "squeue")
    (tmp_path / "squeue").write_text(WITHOUT_ENDED_JOBS.format(python=sys.executable, squeue=squeue))
    (tmp_path / "squeue").chmod(0o755)
    forgetful = replace(slurm, env={**slurm.env, "PATH": f"{tmp_path}:{slurm.env['PATH']}"})
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        # Between two looks most jobs start and end.
        with serving(forgetful, journal, "--pin", "--partition", "main", "--period", "3", "--hold", "30"):
            blocker = slurm.submitted(16, 1000, "-p", "other")
            until(lambda: runs(slurm, blocker))
            jobs = {slurm.submitted(nodes, 0) for nodes in (3, 5, 7, 2, 4, 6)}
            until(lambda: jobs <= {event["job"] for event in events(journal, "held")})
            slurm.said("scancel", blocker)
            until(lambda: jobs <= {event["job"] for event in events(journal, "pinned")})
            until(lambda: jobs <= {event["job"] for name in ("started", "unseen") for event in events(journal, name)})
        assert marks(slurm) == []
    found = Replay.of(journal)
    assert not found.wrong
    seen = {event["job"] for event in events(journal, "started") if event["job"] in jobs}
    assert found.as_pinned == len(seen)
    assert seen.isdisjoint(event["job"] for event in events(journal, "unseen"))


def test_who_may_not_change_jobs_observes_and_is_told_so_else(slurm: VirtualSlurm, tmp_path: Path) -> None:
    # Slurm's commands as another user runs them, who need not be able to read this environment.
    for name in ("squeue", "sinfo", "scontrol"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/{name} "$@"\n')
        program.chmod(0o755)
    other = replace(slurm, env={**slurm.env, "PATH": f"{tmp_path}:{slurm.env['PATH']}"})
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000)
        until(lambda: runs(slurm, blocker))
        job = slurm.submitted(4, 1)
        observing = started(other, tmp_path / "observed.jsonl", "--observe", "--for", "2")
        said = observing.communicate(timeout=WAIT_S)[1]
        assert observing.returncode == 0, said
        refused = started(other, tmp_path / "pinned.jsonl", "--pin", "--partition", "main")
        said = refused.communicate(timeout=WAIT_S)[1]
        assert job in slurm.said("squeue", "-h", "-o", "%i").split()
    assert refused.returncode == 2
    assert "run as a Slurm operator" in said.splitlines()[-1]


HOSTILE_NAMES = (
    *(b"bad\xff", b"\xfe\xff", b"\xc3\x28", b"\xed\xa0\x80", b"x NumNodes=3 NumTasks=3", b"JobId=99 JobState=RUNNING"),
    *(
        b"a\nJobId=99",
        b"tab\there",
        b"\x1b[2Jclear",
        b"bell\x07",
        b"'; rm -rf / #",
        b"$(touch pwned)",
        b"`id`",
        b"%s%n%x",
    ),
    *(
        b"<script>alert(1)</script>",
        b'","state":"R"',
        b"a|b|c",
        b"../../etc/passwd",
        "\u202egnp.exe".encode(),
        b"n" * 1000,
    ),
)


def test_names_of_jobs_that_other_users_choose_harm_neither_the_service_nor_its_readers(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000, "-p", "other")
        until(lambda: runs(slurm, blocker))
        for name in HOSTILE_NAMES:
            command = [b"sbatch", b"-H", b"-N1", b"-J", name, b"--wrap", b"true", b"-o", b"/dev/null"]
            subprocess.run(command, env=slurm.env, check=True, capture_output=True)
        with serving(slurm, journal, "--pin", "--partition", "main", "--hold", "1000") as service:
            job = slurm.submitted(4, 1)
            until(lambda: marks(slurm) == [job])
            slurm.said("scancel", blocker)
            until(lambda: job in {event["job"] for event in events(journal, "started")})
            assert service.poll() is None
    live = [sys.executable, "-m", "allocopt", "live"]
    for words in (["release"], ["status", str(journal)], ["replay", str(journal)]):
        done = subprocess.run([*live, *words], env=slurm.env, capture_output=True)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
        assert b"\x1b" not in done.stdout
    assert not (Path.cwd() / "pwned").exists()
    assert Replay.of(journal).as_pinned == 1


def queued(slurm: VirtualSlurm) -> list[tuple[str, int]]:
    """Return the waiting jobs in Slurm's order, with what is taken from their priorities."""
    rows = slurm.said("squeue", "-h", "-t", "PD", "-S", "-p,i", "-o", "%i %y").splitlines()
    return [(job, int(nice)) for job, nice in map(str.split, rows)]


def test_jobs_stand_in_the_order_asked_for_until_the_service_ends_or_is_killed(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    journal = tmp_path / "j.jsonl"
    order = ("--order", "evolved-formula", "--partition", "main")
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000, "-p", "other")
        until(lambda: runs(slurm, blocker))
        long, nice = slurm.submitted(2, 1, "-t", "60"), slurm.submitted(2, 1, "-t", "30", "--nice=7")
        other = slurm.submitted(1, 1, "-p", "other")
        array = slurm.submitted(1, 1, "-t", "10", "--array=1-3")
        short = slurm.submitted(3, 1, "-t", "2")
        together, before = f"{array}_[1-3]", queued(slurm)
        assert [job for job, _ in before] == [long, other, together, short, nice]
        for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
            with serving(slurm, journal, *order) as service:
                until(lambda: [job for job, _ in queued(slurm)] == [short, other, together, nice, long])
                assert dict(queued(slurm))[other] == 0
                end(service)
                until(lambda: queued(slurm) == before)
            assert marks(slurm) == []
            journal.unlink()
        with serving(slurm, journal, *order):
            until(lambda: queued(slurm)[0][0] == short)
            slurm.said("scancel", blocker)
            begun = {short, array, nice, long}
            until(lambda: {one["job"].split("_")[0] for one in events(journal, "started")} >= begun)
    first = {one["job"].split("_")[0]: one["start_s"] for one in reversed(events(journal, "started"))}
    assert first[short] <= first[long]
    assert not events(journal, "refused")


def test_pinned_jobs_start_in_the_order_asked_for(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        with serving(slurm, journal, "--order", "evolved-formula", "--pin", "--partition", "main"):
            blocker = slurm.submitted(16, 1000, "-p", "other")
            until(lambda: runs(slurm, blocker))
            jobs = [slurm.submitted(12, 1, "-t", limit) for limit in ("60", "30", "2")]
            until(lambda: len(events(journal, "held")) >= len(jobs))
            slurm.said("scancel", blocker)
            until(lambda: {event["job"] for event in events(journal, "started")} >= {*jobs})
        assert marks(slurm) == []
    assert [event["job"] for event in events(journal, "pinned")] == jobs[::-1]


def test_advice_tells_what_an_order_would_save_and_changes_nothing(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        blocker = slurm.submitted(16, 1000, "-p", "other")
        until(lambda: runs(slurm, blocker))
        for limit in ("60", "2"):
            slurm.submitted(16, 1, "-t", limit)
        before = queued(slurm)
        with serving(slurm, journal, "--order", "evolved-formula", "--advise", "--partition", "main"):
            until(lambda: events(journal, "expected"))
        assert (queued(slurm), marks(slurm)) == (before, [])
    told = events(journal, "expected")[-1]
    assert told["waiting"] == 2
    # Jobs of other tests have taught it that this user's jobs run for a second, whatever their limits.
    assert 0 < told["ordered_wait_s"] <= told["slurm_wait_s"]
