"""Racks freed for gangs on a real Slurm by ``allocopt live slurm --relocate requeue``, also with disturbances.

Each round fills virtual nodes with jobs, cancels some so that every rack keeps a job, and submits a gang that needs a
whole rack. No job may be lost, moved jobs have to run on their planned nodes, and nothing may stay held, pinned or
reserved. In other rounds the service is killed, slurmctld restarts, or a node of the plan drains, at a random time.
"""

import random
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.live.journal import Replay, read_journal
from allocopt.live.slurm import Look, Slurm, SlurmError
from benchmarks.virtual_slurm import NODES_PER_LEAF, VirtualSlurm, open_folder, running, tree_files

SIZES = (1, 1, 1, 2, 2, 3, 4)
"""Numbers of nodes from which those of jobs are drawn."""
SHARES = {"main": 0.8, "other": 0.2}  # share of jobs by partition; jobs of the second may not be moved
GIVE_UP_S = 300.0
SETTINGS = "KillWait=5\nSchedulerParameters=bf_interval=2,bf_resolution=1,sched_interval=2,max_switch_wait=7200"
PARTITIONS = "\n".join(
    f"PartitionName={name} Nodes=ALL OverSubscribe=EXCLUSIVE" for name in ("main Default=YES", "other")
)


@dataclass(slots=True)
class Round:
    """Results of a round.

    Parameters
    ----------
    jobs
        Ids of all jobs except the gang.
    events
        Events in the service's journal during the round.
    wait_s
        Seconds until the gang started; None if it did not start.
    free_s
        Seconds after a disturbance until nothing was held.
    """

    jobs: list[str] = field(default_factory=list)
    gang: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    wait_s: float | None = None
    free_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the events with a name."""
        return [one for one in self.events if one["event"] == event]


@dataclass(slots=True)
class Beside:
    """A cluster and the journal of its service."""

    cluster: VirtualSlurm
    journal: Path
    rng: random.Random
    nodes: int
    idle: float

    def look(self) -> Look:
        """Query the cluster; wait for a slurmctld that restarts."""
        end = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return Slurm(self.cluster.env).look()
            except SlurmError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait for a condition; raise `TimeoutError` if it does not become true."""
        end = time.monotonic() + GIVE_UP_S
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {GIVE_UP_S:g} s: {what}")
            time.sleep(0.3)

    def on(self) -> dict[str, set[str]]:
        """Return the nodes of the running jobs, by id."""
        return {job.id: set(job.allocated) for job in self.look().jobs if job.state == "RUNNING"}

    def written(self, since: int) -> list[dict[str, Any]]:
        """Return the events of the journal after the first ``since`` ones."""
        is_begun = self.journal.exists() and self.journal.stat().st_size
        return list(read_journal(self.journal))[since:] if is_begun else []

    def is_free(self) -> bool:
        """Return whether no waiting job is held or pinned, and no node is reserved."""
        look = self.look()
        held = (
            job.is_marked or job.required or job.begin_s > look.now_s for job in look.jobs if job.state == "PENDING"
        )
        return not any(held) and not look.closures

    @contextmanager
    def service(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the service; it has begun when the context is entered."""
        options = ("--partition", "main", "--within", "leaf", "--relocate-after", "0", "--requeues-per-hour", "1000")
        options = (*options, "--period", "1", "--journal", str(self.journal))
        before = len(self.written(0))
        service = subprocess.Popen(
            [sys.executable, "-m", "allocopt", "live", "slurm", "--relocate", "requeue", *options],
            env=self.cluster.env,
        )
        try:
            self.until(lambda: len(self.written(before)), "the service begins")
            yield service
        finally:
            service.terminate()
            service.wait()

    def fragment(self) -> list[str]:
        """Fill the nodes with jobs and cancel some; return the ids of those that keep running."""
        left, sizes = self.nodes, {}
        while left:
            size = min(self.rng.choice(SIZES), left)
            (partition,) = self.rng.choices(list(SHARES), list(SHARES.values()))
            sizes[self._submitted(size, partition)] = size
            left -= size
        self.until(lambda: sizes.keys() <= self.on().keys(), "all nodes are taken")
        on = self.on()
        jobs = sorted(sizes)
        self.rng.shuffle(jobs)
        gone: list[str] = []
        while sum(sizes[job] for job in gone) < self.idle * self.nodes:
            gone.append(jobs.pop())
        # Every rack keeps a job, otherwise the gang would find a free rack.
        for rack in range(self.nodes // NODES_PER_LEAF):
            names = {f"n{node:04}" for node in range(rack * NODES_PER_LEAF, (rack + 1) * NODES_PER_LEAF)}
            if not any(names & on[job] for job in jobs):
                back = next(job for job in gone if names & on[job])
                gone.remove(back)
                jobs.append(back)
        self.cluster.said("scancel", *gone)
        self.until(lambda: not self.on().keys() & set(gone), "cancelled jobs have ended")
        return jobs

    def _submitted(self, size: int, partition: str) -> str:
        options = ("-N", str(size), "-t", "300", "-p", partition, "--requeue", "-o", "/dev/null")
        return self.cluster.said("sbatch", "--parsable", *options, "--wrap", "exec sleep 10000")

    def gang(self) -> str:
        """Submit a job that needs a rack."""
        options = ("-N", str(NODES_PER_LEAF), "-t", "200", "--switches=1@02:00:00", "-o", "/dev/null")
        return self.cluster.said("sbatch", "--parsable", *options, "--wrap", "exec sleep 10000")

    def clean(self) -> None:
        """End all jobs."""
        self.cluster.said("scancel", "-u", "root")
        self.until(lambda: not self.cluster.said("squeue", "-h"), "no job is left")

    def check(self, one: Round, *, is_whole: bool = True) -> None:
        """Record jobs that are lost, moved to other nodes, or moved without permission.

        The journal is whole if no service was killed.
        """
        jobs, on = {job.id: job for job in self.look().jobs}, self.on()
        for job in one.jobs:
            if job not in jobs or jobs[job].state not in ("RUNNING", "PENDING"):
                one.faults.append(f"job {job} is lost: {jobs[job].state if job in jobs else 'not listed'}")
        for told in one.told("moved"):
            if on.get(told["job"]) != set(expand_hostlist(told["nodes"])):
                one.faults.append(f"job {told['job']} was moved to {told['nodes']} and is on {on.get(told['job'])}")
        requeued = {told["job"] for told in one.told("requeued")}
        for job in one.jobs:
            if is_whole and job in jobs and jobs[job].restarts != (job in requeued):
                one.faults.append(f"job {job} has restarted {jobs[job].restarts} times")
            if job in requeued and job in jobs and jobs[job].partition != "main":
                one.faults.append(f"job {job} may not be moved")


def freed(beside: Beside) -> Round:
    """Fragment the cluster, and wait until a gang has its rack."""
    one, since = Round(beside.fragment()), len(beside.written(0))
    begun = time.monotonic()
    one.gang = beside.gang()
    try:
        beside.until(lambda: one.gang in beside.on(), "the gang starts")
        one.wait_s = time.monotonic() - begun
        beside.until(lambda: set(one.jobs) <= beside.on().keys() and beside.is_free(), "all jobs run and are free")
    except TimeoutError as error:
        one.faults.append(str(error))
    one.events = beside.written(since)
    beside.check(one)
    beside.clean()
    return one


def killed(beside: Beside, service: "subprocess.Popen[bytes]", plan: Mapping[str, Any]) -> str:
    """Kill the service."""
    service.kill()
    service.wait()
    return ""


def restarted(beside: Beside, service: "subprocess.Popen[bytes]", plan: Mapping[str, Any]) -> str:
    """Restart slurmctld."""
    beside.cluster.restart()
    return ""


def drained(beside: Beside, service: "subprocess.Popen[bytes]", plan: Mapping[str, Any]) -> str:
    """Drain a node that a job of the plan gets, and return it."""
    nodes = [node for step in plan["steps"] for node in expand_hostlist(step.get("nodes", ""))]
    node = beside.rng.choice(nodes)
    beside.cluster.said("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=chaos")
    return node


DISTURBANCES: Mapping[str, Callable[[Beside, "subprocess.Popen[bytes]", Mapping[str, Any]], str]] = {
    "killed": killed,
    "slurmctld restarts": restarted,
    "a node drains": drained,
}


def disturbed(beside: Beside, name: str) -> Round:
    """Fragment the cluster, disturb the relocation for a gang, and wait until nothing is held."""
    with beside.service() as service:
        one, since = Round(beside.fragment()), len(beside.written(0))
        one.gang = beside.gang()
        node = ""
        try:
            beside.until(lambda: _plans(beside, since), "there is a plan")
            time.sleep(beside.rng.uniform(0, 6))
            node = DISTURBANCES[name](beside, service, _plans(beside, since)[0])
            begun = time.monotonic()
            if name == "killed":
                beside.until(beside.is_free, "nothing is held")
            else:
                beside.until(lambda: _is_over(beside, since) and beside.is_free(), "the plan ends and nothing is held")
            one.free_s = time.monotonic() - begun
        except TimeoutError as error:
            one.faults.append(str(error))
        try:
            if node:
                beside.cluster.said("scontrol", "update", f"NodeName={node}", "State=RESUME")
            beside.until(lambda: set(one.jobs) <= beside.on().keys(), "all jobs run")
        except TimeoutError as error:
            one.faults.append(str(error))
    one.events = beside.written(since)
    beside.check(one, is_whole=name != "killed")
    beside.clean()
    return one


def _plans(beside: Beside, since: int) -> list[dict[str, Any]]:
    return [event for event in beside.written(since) if event["event"] == "relocation" and event["steps"]]


def _is_over(beside: Beside, since: int) -> bool:
    return any(event["event"] in ("relocation done", "relocation dropped") for event in beside.written(since))


def in_words(name: str, rounds: list[Round]) -> str:
    """Return the results of rounds in a line."""
    requeued = [len(one.told("requeued")) for one in rounds]
    plans = [event for one in rounds for event in one.told("relocation")]
    done, dropped = (sum(len(one.told(f"relocation {end}")) for one in rounds) for end in ("done", "dropped"))
    words = [
        f"{name}: {len(rounds)} rounds of {statistics.mean(len(one.jobs) for one in rounds):.0f} jobs",
        f"{len(plans)} plans, {sum(event['proved'] for event in plans)} proved, {done} done, {dropped} dropped",
        f"{sum(requeued)} jobs queued again, {statistics.mean(requeued):.1f} a round",
        f"{sum(len(one.told('moved')) for one in rounds)} seen where they were planned",
        f"{sum('is lost' in fault for one in rounds for fault in one.faults)} lost",
    ]
    if waits := [one.wait_s for one in rounds if one.wait_s is not None]:
        words.append(f"{len(waits)} gangs start after {statistics.median(waits):.1f} s, at most {max(waits):.1f} s")
    if free := [one.free_s for one in rounds if one.free_s]:
        words.append(f"free of holds after {statistics.median(free):.1f} s, at most {max(free):.1f} s")
    if solve := [event["solve_s"] for event in plans]:
        words.append(f"solves take {1000 * statistics.median(solve):.0f} ms, at most {1000 * max(solve):.0f} ms")
    return "; ".join(words)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--chaos", type=int, default=5, help="rounds of each disturbance")
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument(
        "--idle", type=float, default=0.12, help="approximate share of idle nodes when the gang is submitted"
    )
    parser.add_argument("--port", type=int, default=17000, help="port of slurmctld; those of the nodes follow")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    faults = 0
    with open_folder() as folder:
        names = tree_files(folder, given.nodes, given.port, partitions=PARTITIONS, settings=SETTINGS)
        with running(folder, names) as cluster:
            beside = Beside(cluster, folder / "journal.jsonl", random.Random(given.seed), given.nodes, given.idle)
            if given.rounds:
                with beside.service():
                    rounds = [freed(beside) for _ in range(given.rounds)]
                faults += told("no disturbance", rounds)
            for name in DISTURBANCES if given.chaos else ():
                faults += told(name, [disturbed(beside, name) for _ in range(given.chaos)])
            wrong = Replay.of(beside.journal).wrong
            print(f"{len(wrong)} answers of the journal do not hold {wrong[:3] or ''}")
    raise SystemExit(f"{faults} faults" if faults or wrong else 0)


def told(name: str, rounds: list[Round]) -> int:
    """Print the results of rounds; return the number of faults."""
    found = [fault for one in rounds for fault in one.faults]
    print(in_words(name, rounds), *(f"  {fault}" for fault in found), sep="\n", flush=True)
    return len(found)


if __name__ == "__main__":
    main()
