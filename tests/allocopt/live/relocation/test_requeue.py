"""Relocation beside a real Slurm: gangs get their rack, jobs move as planned, none is lost, and nothing stays held."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from support.virtual_slurm import WAIT_S, a_clean, events, slurm_of, until

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.live.journal import Replay
from allocopt.live.slurm import Slurm, SlurmJob
from benchmarks.virtual_slurm import VirtualSlurm

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]

RACK, NODES = 8, 16
GANG = 6
"""Nodes of the gang."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[VirtualSlurm]:
    main, other = "PartitionName=main Nodes=ALL Default=YES", "PartitionName=other Nodes=ALL"
    partitions = "\n".join(f"{line} OverSubscribe=EXCLUSIVE" for line in (main, other))
    # Jobs with --switches wait for them as long as they ask.
    settings = "KillWait=8\nSchedulerParameters=bf_interval=2,bf_resolution=1,sched_interval=2,max_switch_wait=7200"
    with slurm_of(NODES, partitions=partitions, settings=settings) as cluster:
        yield cluster


@contextmanager
def relocating(slurm: VirtualSlurm, journal: Path, how: str, *more: str) -> Iterator[Popen[str]]:
    """Run a service that makes room for gangs at once, until it is ended."""
    options = ("--partition", "main", "--within", "leaf", "--relocate-after", "0", "--relocate-limit", "5")
    command = (sys.executable, "-m", "allocopt", "live", "slurm", "--journal", str(journal), "--period", "0.5")
    service = Popen([*command, "--relocate", how, *options, *more], env=slurm.env, stderr=PIPE, text=True)
    try:
        until(lambda: service.poll() is not None or (journal.exists() and b'"begun"' in journal.read_bytes()))
        assert service.poll() is None, service.communicate()[1]
        yield service
    except AssertionError as error:
        told = [line[:400] for line in journal.read_text().splitlines()]
        error.add_note("\n".join([*told, slurm.said("squeue", "-a"), slurm.said("scontrol", "show", "reservation")]))
        raise
    finally:
        service.terminate()
        service.communicate(timeout=WAIT_S)


def seen(slurm: VirtualSlurm) -> dict[str, SlurmJob]:
    return {job.id: job for job in Slurm(slurm.env).look().jobs}


def on(slurm: VirtualSlurm, job: str) -> set[str]:
    """Return the nodes of a job that runs."""
    found = seen(slurm).get(job)
    return set(found.allocated) if found is not None and found.state == "RUNNING" else set()


def is_free_of_marks(slurm: VirtualSlurm) -> bool:
    """Whether no job that waits is held or pinned, and no node reserved."""
    look = Slurm(slurm.env).look()
    is_held = any(
        job.is_marked or job.required or job.begin_s > look.now_s for job in look.jobs if job.state == "PENDING"
    )
    return not is_held and not look.closures


@dataclass(frozen=True)
class Fragmented:
    """Two racks of which the first has two jobs and four idle nodes, the second three jobs and two idle nodes."""

    slurm: VirtualSlurm
    jobs: tuple[str, ...]
    before: dict[str, SlurmJob]

    @classmethod
    def by(cls, slurm: VirtualSlurm, *more: str, wrap: str = "exec sleep 1000") -> "Fragmented":
        options = ("-N", "2", "-t", "60", "-o", "/dev/null", "--requeue", *more, "--wrap", wrap)
        jobs = [slurm.said("sbatch", "--parsable", *options) for _ in range(NODES // 2)]
        until(lambda: all(on(slurm, job) for job in jobs))
        by_node = sorted(jobs, key=lambda job: sorted(on(slurm, job)))
        gone = (*by_node[2:4], by_node[4])
        slurm.said("scancel", *gone)
        until(lambda: all(job.state != "COMPLETING" for job in seen(slurm).values()))
        left = tuple(job for job in by_node if job not in gone)
        found = seen(slurm)
        return cls(slurm, left, {job: found[job] for job in left})

    def gang(self, seconds: float = 1000) -> str:
        """Submit a job that needs a rack of its own, for which a job of the first one has to move."""
        return self.slurm.submitted(GANG, seconds, "-t", "50", "--switches=1@01:00:00")

    def changed(self) -> list[str]:
        """Return the jobs that are not as they were."""
        now = seen(self.slurm)
        return [job for job, was in self.before.items() if now[job].start_s != was.start_s or now[job].restarts]

    def check_none_is_lost(self) -> None:
        """Wait until all jobs run, queued again at most once."""
        until(lambda: all(on(self.slurm, job) for job in self.jobs))
        assert all(job.restarts <= 1 for job in seen(self.slurm).values())


def test_a_plan_that_is_only_written_changes_nothing(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm)
        with relocating(slurm, journal, "advise"):
            gang = cluster.gang()
            until(lambda: events(journal, "relocation"))
            time.sleep(2)
            assert cluster.changed() == []
            assert seen(slurm)[gang].state == "PENDING"
            assert is_free_of_marks(slurm)
    (told,) = events(journal, "relocation")
    assert [step["action"] for step in told["steps"]] == ["move", "start"]
    assert told["steps"][0]["job"] in cluster.jobs[:2]
    assert told["proved"]
    assert told["cost"] == told["bound"] > 0
    found = Replay.of(journal)
    assert (found.wrong, found.relocations, found.requeued) == ([], 1, 0)


def test_a_gang_gets_its_rack_and_the_job_that_makes_room_goes_on_where_it_was_planned(
    slurm: VirtualSlurm, tmp_path: Path
) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm)
        with relocating(slurm, journal, "requeue"):
            gang = cluster.gang()
            # It would take the nodes that become free, and fits nowhere else meanwhile.
            small = slurm.submitted(3, 1000, "-t", "60", "--switches=1@01:00:00")
            until(lambda: events(journal, "relocation done"))
            rack = on(slurm, gang)
            assert len(rack) == GANG
            assert len({int(node[1:]) // RACK for node in rack}) == 1
            cluster.check_none_is_lost()
            (moved,) = cluster.changed()
            (told,) = events(journal, "moved")
            assert told["job"] == moved
            assert on(slurm, moved) == set(expand_hostlist(told["nodes"])) != set(cluster.before[moved].allocated)
            assert seen(slurm)[small].state == "PENDING"
            # A job that was queued again stays: the next gang finds no room, and that is proved.
            until(lambda: events(journal, "relocation")[-1]["gang"] == small)
            assert len(events(journal, "requeued")) == 1
        assert is_free_of_marks(slurm)
    found = Replay.of(journal)
    assert (found.wrong, found.relocated, found.relocations_dropped, found.requeued) == ([], 1, 0, 1)


@pytest.mark.parametrize("stays", [("-p", "other"), ("--no-requeue",)], ids=["not opted in", "Requeue=0"])
def test_jobs_that_may_not_be_queued_again_are_never_touched(
    slurm: VirtualSlurm, tmp_path: Path, stays: Sequence[str]
) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm, *stays)
        with relocating(slurm, journal, "requeue", "--may-stop"):
            gang = cluster.gang()
            until(lambda: events(journal, "relocation"))
            time.sleep(2)
            assert cluster.changed() == []
            assert seen(slurm)[gang].state == "PENDING"
        assert is_free_of_marks(slurm)
    told = events(journal, "relocation")[0]
    assert (told["gang"], told["steps"], told["proved"]) == (gang, [], True)
    assert Replay.of(journal).wrong == []


# Of a job that does not end until Slurm kills it, so that it takes a while to leave its nodes.
STUBBORN = "trap '' TERM; sleep 1000"


def test_a_service_that_is_killed_half_way_leaves_nothing_held(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm, wrap=STUBBORN)
        with relocating(slurm, journal, "requeue") as service:
            cluster.gang()
            until(lambda: events(journal, "requeued"))
            service.kill()
            service.wait()
            job = events(journal, "requeued")[0]["job"]
            until(lambda: seen(slurm)[job].state != "COMPLETING")
            until(lambda: is_free_of_marks(slurm))
        cluster.check_none_is_lost()


def test_a_slurmctld_that_restarts_half_way_does_not_end_a_relocation(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm, wrap=STUBBORN)
        with relocating(slurm, journal, "requeue"):
            gang = cluster.gang()
            until(lambda: events(journal, "requeued"))
            slurm.restart()
            until(lambda: events(journal, "relocation done"))
            assert len({int(node[1:]) // RACK for node in on(slurm, gang)}) == 1
            cluster.check_none_is_lost()
        assert is_free_of_marks(slurm)


def test_a_node_that_drains_half_way_ends_a_relocation_and_frees_all(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    with a_clean(slurm):
        cluster = Fragmented.by(slurm, wrap=STUBBORN)
        with relocating(slurm, journal, "requeue"):
            cluster.gang()
            until(lambda: events(journal, "requeued"))
            steps = events(journal, "relocation")[0]["steps"]
            node = expand_hostlist(steps[0]["nodes"])[0]
            slurm.said("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
            try:
                until(lambda: events(journal, "relocation dropped"))
                until(lambda: is_free_of_marks(slurm))
                assert node in events(journal, "relocation dropped")[0]["why"]
            finally:
                slurm.said("scontrol", "update", f"NodeName={node}", "State=RESUME")
            cluster.check_none_is_lost()
    found = Replay.of(journal)
    assert found.wrong == []
    assert min(found.relocations_dropped, found.requeued) >= 1
