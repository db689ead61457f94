"""Disturbances of ``allocopt live slurm`` on a real Slurm: all jobs must run on allowed nodes, and none stay held.

The service is killed, slurmctld restarts, nodes drain, a job is cancelled or changed while its pin or its nice value is
being set, squeue hangs, or the clock goes back. Each happens at a random time while a queue of jobs runs, which
includes a job array.
"""

import random
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.live.journal import Replay, read_journal
from allocopt.live.slurm import Slurm
from benchmarks.virtual_slurm import VirtualSlurm, open_folder, running, tree_files

NODES, JOBS, TASKS, DRAINED = 16, 6, 3, 5
BACK_S = 3600
WAYS = {"pin": ("--pin", "--hold", "{hold:g}", "--pin-for", "5"), "order": ("--order", "evolved-formula")}
"""Options of the service, by its function."""
MARGIN_S = 2.0  # tolerance for times in whole seconds, and for the requests
GIVE_UP_S = 60.0
# Commands that the service finds instead of Slurm's own.
SQUEUE = '#!/bin/sh\nwhile [ -f "{folder}/hang" ]; do sleep 0.1; done\nexec {squeue} "$@"\n'
SCONTROL = """\
#!/bin/sh
case "$*" in
    *ReqNodeList=n*)
        mv "{folder}/hook" "{folder}/hooked" 2>/dev/null && sh "{folder}/hooked" "${{2#JobId=}}"
        exec {scontrol} "$@" ;;
    -Q)
        told=$(cat)
        job=$(printf "%s" "$told" | sed -n "s/^update JobId=\\([^ ]*\\) Nice=.*/\\1/p" | head -n 1)
        [ -n "$job" ] && mv "{folder}/hook" "{folder}/hooked" 2>/dev/null && sh "{folder}/hooked" "$job"
        printf "%s\\n" "$told" | exec {scontrol} "$@" ;;
    *) exec {scontrol} "$@" ;;
esac
"""
CLOCK = """\
import time
from pathlib import Path
its_own = time.time
time.time = lambda: its_own() + float(Path("{folder}", "clock").read_text())
"""


@dataclass(slots=True)
class Round:
    """A service and a queue of jobs, with one disturbance.

    Parameters
    ----------
    folder
        Folder of the service's own files.
    way
        Function of the service, one of `WAYS`.
    hold
        Seconds after which a held job is released automatically.
    hang
        Seconds for which squeue hangs.
    sizes
        Number of nodes for which each job asks, by its id.
    nodes
        Nodes that each job had, by its id.
    """

    cluster: VirtualSlurm
    folder: Path
    rng: random.Random
    way: str
    hold: float
    hang: float
    sizes: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    is_begun: bool = False
    killed_s: float = 0.0
    freed_s: float = 0.0

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start a service with our commands and our clock, and wait until it has begun."""
        path = self.cluster.env["PATH"]
        for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL)):
            found = self.cluster.said("which", name)
            (self.folder / name).write_text(text.format(folder=self.folder, **{name: found}))
            (self.folder / name).chmod(0o755)
        (self.folder / "clock").write_text("0")
        (self.folder / "sitecustomize.py").write_text(CLOCK.format(folder=self.folder))
        way = (option.format(hold=self.hold) for option in WAYS[self.way])
        options = (*way, "--period", "0.5", "--journal", str(self.journal))
        service = subprocess.Popen(
            [sys.executable, "-m", "allocopt", "live", "slurm", "--partition", "main", *options],
            env={**self.cluster.env, "PYTHONPATH": str(self.folder), "PATH": f"{self.folder}:{path}"},
            stderr=(self.folder / "said").open("wb"),
        )
        self.until(lambda: self.journal.exists() and b'"begun"' in self.journal.read_bytes(), "the service begins")
        return service

    def until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait for a condition that has to become true."""
        end = time.monotonic() + GIVE_UP_S
        while not is_so():
            if time.monotonic() > end:
                said = (self.folder / "said").read_text()
                raise TimeoutError(f"not within {GIVE_UP_S:g} s: {what}\n{said}")
            time.sleep(0.2)

    def watch(self) -> bool:
        """Record how long jobs are held, and return whether all have ended."""
        with suppress(subprocess.CalledProcessError):
            look = Slurm(self.cluster.env).look()
            held = [job for job in look.jobs if job.state == "PENDING" and job.is_marked]
            self.is_begun |= bool(held)
            for job in held:
                self.longest_s = max(self.longest_s, job.begin_s - look.now_s)
            self.faults += [
                f"job {job.id} has the nice value {job.nice} and no mark"
                for job in look.jobs
                if job.state == "PENDING" and job.nice and not job.is_marked
            ]
            if not held and self.killed_s and not self.freed_s:
                self.freed_s = time.monotonic() - self.killed_s
            return not any(
                job.id in self.sizes for job in look.jobs if job.state in ("PENDING", "RUNNING", "COMPLETING")
            )
        return False

    def check(self) -> None:
        """Record violations."""
        rows = self.cluster.said("squeue", "-h", "-a", "-t", "all", "-o", "%i|%T|%N").splitlines()
        ended = {row.split("|")[0]: row.split("|")[1:] for row in rows}
        chosen = self._pinned()
        for job, size in self.sizes.items():
            state, hostlist = ended[job]
            nodes = tuple(expand_hostlist(hostlist))
            if job in self.cancelled:
                continue
            if state != "COMPLETED":
                self.faults.append(f"job {job} is {state}")
            elif len(nodes) != size:
                self.faults.append(f"job {job} asks for {size} nodes and had {len(nodes)}")
            elif job in chosen and not set(expand_hostlist(chosen[job])) <= set(nodes):
                self.faults.append(f"job {job} was pinned to {chosen[job]} and ran on {hostlist}")
        if wrong := Replay.of(self.journal).wrong:
            self.faults.append(f"{len(wrong)} answers of the journal do not hold: {wrong[0]}")
        if self.longest_s > self.hold + MARGIN_S:
            self.faults.append(f"a job was held for {self.longest_s:.1f} s")

    def _pinned(self) -> dict[str, str]:
        """Return the nodes of jobs that stayed pinned; none if the service was killed, since its journal ends early."""
        chosen: dict[str, str] = {}
        for event in read_journal(self.journal):
            if event["event"] == "pinned":
                chosen[event["job"]] = event["nodes"]
            elif event["event"] in ("unpinned", "left alone", "released"):
                for job in event.get("jobs", [event.get("job")]):
                    chosen.pop(job, None)
        return {} if self.killed_s else chosen


def killed(one: Round, service: "subprocess.Popen[bytes]") -> None:
    service.kill()
    service.wait()
    one.killed_s = time.monotonic()


def restarted(one: Round, service: "subprocess.Popen[bytes]") -> None:
    one.cluster.restart()


def drained(one: Round, service: "subprocess.Popen[bytes]") -> None:
    names = ",".join(one.rng.sample([f"n{number:04}" for number in range(NODES)], DRAINED))
    one.cluster.said("scontrol", "update", f"NodeName={names}", "State=DRAIN", "Reason=chaos")
    time.sleep(one.rng.uniform(1, 4))
    one.cluster.said("scontrol", "update", f"NodeName={names}", "State=RESUME")


def cancelled(one: Round, service: "subprocess.Popen[bytes]") -> None:
    job = _hooked(one, "scancel $1")
    one.cancelled.add(job)


def changed(one: Round, service: "subprocess.Popen[bytes]") -> None:
    size = one.rng.randint(1, NODES // 2)
    scontrol = one.cluster.said("which", "scontrol")
    # With fewer changes Slurm itself leaves jobs that fit nowhere: with more nodes than an unchanged maximum, or with
    # the CPUs of the former nodes.
    asked = f"NumNodes={size}-{size} NumTasks={size} NumCPUs={size} TimeLimit=3"
    one.sizes[_hooked(one, f"{scontrol} update JobId=$1 {asked}")] = size


def hangs(one: Round, service: "subprocess.Popen[bytes]") -> None:
    (one.folder / "hang").touch()
    end = time.monotonic() + one.hang
    while time.monotonic() < end:
        one.watch()
        time.sleep(0.5)
    (one.folder / "hang").unlink()


def clock(one: Round, service: "subprocess.Popen[bytes]") -> None:
    _written(one.folder / "clock", f"-{BACK_S}")


def _hooked(one: Round, command: str) -> str:
    """Run a command just before the next job is pinned or ordered, and return the id of this job."""
    _written(one.folder / "hook", f'echo "$1" > "{one.folder}/met"\n{command}\n')
    one.until(lambda: (one.folder / "met").exists() or one.watch(), "a job is pinned or ordered")
    return (one.folder / "met").read_text().strip() if (one.folder / "met").exists() else ""


def _written(path: Path, text: str) -> None:
    """Write a file atomically, because it is read at the same time."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


DISTURBANCES: Mapping[str, Callable[[Round, "subprocess.Popen[bytes]"], None]] = {
    "killed": killed,
    "slurmctld restarts": restarted,
    "nodes drain": drained,
    "job cancelled": cancelled,
    "job changed": changed,
    "squeue hangs": hangs,
    "clock goes back": clock,
}


def disturbed(cluster: VirtualSlurm, name: str, seed: int, way: str, hold: float, hang: float) -> Round:
    """Run a queue of jobs with a disturbance, and return the round with its violations."""
    with TemporaryDirectory() as folder:
        one = Round(cluster, Path(folder), random.Random(f"{name} {seed}"), way, hold, hang)
        try:
            _run(one, name)
        except TimeoutError as error:
            one.faults.append(str(error))
            # Cancel all jobs, so that the next round begins on an idle cluster.
            cluster.said("scancel", "-u", "root")
    return one


def _run(one: Round, name: str) -> None:
    rng = one.rng
    service = one.start()
    try:
        blocker = one.cluster.submitted(NODES, rng.uniform(2, 4), "-p", "other")
        for _ in range(JOBS):
            size = rng.randint(1, NODES // 2)
            one.sizes[one.cluster.submitted(size, rng.uniform(0.5, 1.5))] = size
        array = one.cluster.submitted(size, rng.uniform(0.5, 1.5), f"--array=1-{TASKS}")
        one.sizes |= {f"{array}_{task}": size for task in range(1, TASKS + 1)}
        # Disturbances of a job wait for their hook; all others come at a random time.
        if "job" not in name:
            one.until(lambda: one.watch() or one.is_begun, "a job is marked")
            end = time.monotonic() + rng.uniform(0, 3)
            while time.monotonic() < end:
                one.watch()
                time.sleep(0.2)
        DISTURBANCES[name](one, service)
        one.sizes.pop("", None)
        one.until(one.watch, f"all jobs run after {blocker}")
        if name != "killed" and service.poll() is not None:
            one.faults.append(f"the service ended: {(one.folder / 'said').read_text()}")
    finally:
        _written(one.folder / "clock", "0")
        service.terminate()
        service.wait()
    one.until(lambda: one.watch() and (name != "killed" or one.freed_s), "all is free")
    one.check()


def partitions() -> str:
    """Return the lines of two partitions of all nodes; the second one is for jobs that block the first."""
    return "\n".join(
        f"PartitionName={name} Nodes=ALL OverSubscribe=EXCLUSIVE" for name in ("main Default=YES", "other")
    )


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each disturbance")
    parser.add_argument("--port", type=int, default=17000, help="port of slurmctld; those of the nodes follow")
    parser.add_argument("--only", help="run only this disturbance")
    parser.add_argument("--way", choices=WAYS, default="pin", help="function of the service")
    parser.add_argument("--hold", type=float, default=30.0)
    parser.add_argument("--hang", type=float, default=30.0, help="seconds for which squeue hangs")
    given = parser.parse_args()
    faults = 0
    with open_folder() as folder:
        names = tree_files(folder, NODES, given.port, partitions=partitions())
        with running(folder, names) as cluster:
            for name in DISTURBANCES if given.only is None else (given.only,):
                rounds = [
                    disturbed(cluster, name, seed, given.way, given.hold, given.hang) for seed in range(given.rounds)
                ]
                jobs = sum(len(one.sizes) for one in rounds)
                longest, freed = max(one.longest_s for one in rounds), max(one.freed_s for one in rounds)
                told = f", free {freed:.1f} s after the kill at the latest" if freed else ""
                found = [fault for one in rounds for fault in one.faults]
                print(
                    f"{name}: {len(rounds)} rounds, {jobs} jobs, held at most {longest:.1f} s ahead{told}", flush=True
                )
                print(*(f"  {fault}" for fault in found), sep="\n", end="\n" if found else "", flush=True)
                faults += len(found)
    raise SystemExit(f"{faults} faults" if faults else 0)


if __name__ == "__main__":
    main()
