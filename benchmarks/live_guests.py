"""Eight guests on the cores of four jobs of a real Slurm, by ``allocopt live guests``: gain by sharing, loss of hosts.

The two nodes have one core each: cores 0 and 1 of this machine. There are four jobs, the hosts, and eight guests, of
four kinds: they compute, write, copy memory, or compute and wait in turn. The guests run as guests, or wait for nodes
of their own. Needs Slurm's daemons and munge, root, and writable control groups. Takes about a quarter of an hour.
"""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from allocopt.live.hosting.control_groups import PREFIX, find_version
from allocopt.live.journal import read_journal
from allocopt.report.words import Cell, aligned_table
from benchmarks.guest_programs import PROGRAMS
from benchmarks.virtual_slurm import VirtualSlurm, open_folder, running, tree_files
from papers.pages import write_page

PROGRAM = Path(__file__).with_name("guest_programs.py")
CLAIM = (
    "Eight guests on the cores of four hosts end after 41 s on average, as separate jobs after 92 s, and the two "
    "cores are 79 to 85 % busy instead of 70 %. Hosts take up to 5 % longer under `asax`, up to 10 % with a quota of "
    "a half, and up to 16 % with a quota of a fifth, at which no guest is paused. The guest of a suffering host is "
    "paused within 1.0 s."
)
HOST_S, GUEST_S = 36.0, 6.0
KINDS = tuple(PROGRAMS)
GUESTS = tuple(f"{kind}-{number}" for number in range(2) for kind in KINDS)
ALONE = "nodes of their own"
LOSS = ("--option", "loss=degradation", "--option", "period_s=1")
WAYS: dict[str, tuple[str, ...]] = {
    ALONE: (),
    "static-50": ("--policy", "static-50"),
    "static-20": ("--policy", "static-50", "--option", "percent=20"),
    "asax": ("--policy", "asax", *LOSS),
}
"""Ways to run guests: as jobs of Slurm, or by ``allocopt live guests`` with these options."""
ROUNDS = 3
GIVE_UP_S = 600.0
BUSY = {"cpu": 0.5, "memory": 0.5, "io": 0.2, "mixed": 0.3}
"""Share of a core that a guest of each kind needs."""


@dataclass(frozen=True, slots=True)
class Run:
    """Results of a run."""

    hosts_s: float  # time until the last host ended
    all_s: float  # time until the last job or guest ended
    slower: dict[str, float]  # run time of the host of each kind over its run time without guests
    done: int  # number of guests that ended
    response_s: float  # mean time until a guest ended
    busy: float  # mean number of busy cores of this machine until the last host ended
    pauses: int
    paused_after_s: tuple[float, ...]  # time for which a host had suffered when its guest was paused


def command_of(kind: str, seconds: float) -> list[str]:
    return [sys.executable, str(PROGRAM), kind, f"{seconds:g}"]


def submit(cluster: VirtualSlurm, folder: Path, name: str, seconds: float) -> None:
    # A node is a core of this machine.
    kind = name.split("-")[0]
    line = f"exec taskset -c ${{SLURMD_NODENAME#n000}} {' '.join(command_of(kind, seconds))}"
    out = str(folder / f"{name}.out")
    cluster.said(
        "sbatch",
        "-N",
        "1",
        "-t",
        "10",
        "-o",
        out,
        "-J",
        kind,
        "--comment",
        "host" if name.endswith("host") else "job",
        "--wrap",
        line,
    )


def times_of(path: Path, word: str) -> list[float]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [float(line.split()[1]) for line in lines if line.split()[0] == word]


def busy_s() -> float:
    """Return the total busy time of all cores of this machine."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split(None, 8)[1:8])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def guests_file(folder: Path) -> Path:
    path = folder / "guests.toml"
    lines = []
    for name in GUESTS:
        kind = name.split("-")[0]
        lines.append(f"[[guest]]\nname = {json.dumps(name)}\ncommand = {json.dumps(command_of(kind, GUEST_S))}\n")
        lines.append(f"output = {json.dumps(str(folder / f'{name}.out'))}\n")
        lines.append(f"busy = {BUSY[kind]}\n")
        lines.append(f"application = {json.dumps(kind)}\nlimit_s = {4 * GUEST_S}\n")
    path.write_text("".join(lines))
    return path


@contextmanager
def serving(cluster: VirtualSlurm, folder: Path, way: Sequence[str], seed: int) -> Iterator[None]:
    """Run the service, and end it like Ctrl-C, which does not reach programs in the background."""
    words = ["live", "guests", str(guests_file(folder)), "--journal", str(folder / "journal.jsonl")]
    hosts = ["--slurm", "n[0000-0001]", "--comment", "host", "--rest", "3", "--seed", str(seed)]
    with (folder / "service.out").open("wb") as out:
        command = [sys.executable, "-m", "allocopt", *words, *hosts, *way]
        service = subprocess.Popen(command, env=cluster.env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            service.terminate()
            service.wait()


def wait_for(cluster: VirtualSlurm, hosts: Collection[Path]) -> tuple[float, float]:
    """Wait until Slurm has no job; return the end of the last host, and the busy time of all cores at that time."""
    until = time.monotonic() + GIVE_UP_S
    found: tuple[float, float] | None = None
    while cluster.said("squeue", "-h"):
        if found is None and all(times_of(path, "ends") for path in hosts):
            found = time.time(), busy_s()
        if time.monotonic() > until:
            raise TimeoutError("the jobs do not end")
        time.sleep(0.3)
    return found or (time.time(), busy_s())


def run_once(cluster: VirtualSlurm, folder: Path, way: Sequence[str], alone: dict[str, float], seed: int) -> Run:
    """Run hosts and guests once; ``alone`` has the run times of hosts without guests, or is filled with them."""
    order = np.random.default_rng(seed).permutation(KINDS).tolist()
    hosts = {kind: folder / f"{kind}-host.out" for kind in order}
    journal = folder / "journal.jsonl"
    began, busy_before = time.time(), busy_s()
    with serving(cluster, folder, way, seed) if way else nullcontext():
        for kind in order:
            submit(cluster, folder, f"{kind}-host", HOST_S)
        if not way:
            for name in GUESTS:
                submit(cluster, folder, name, GUEST_S)
        ended_s, busy = wait_for(cluster, hosts.values())
    took = {kind: times_of(path, "ends")[0] - times_of(path, "begins")[0] for kind, path in hosts.items()}
    if not way:
        alone.update(took)
    ends = [times_of(folder / f"{name}.out", "ends") for name in GUESTS]
    pauses = list(_pauses(journal)) if way else []
    return Run(
        ended_s - began,
        max([ended_s, *(end[0] for end in ends if end)]) - began,
        {kind: seconds / alone[kind] for kind, seconds in took.items()},
        sum(map(bool, ends)),
        float(np.mean([end[0] - began for end in ends if end])),
        (busy - busy_before) / (ended_s - began),
        len(pauses),
        tuple(pauses),
    )


def _pauses(journal: Path) -> Iterator[float]:
    """Yield the time for which each suffering host had suffered when its guest was paused."""
    for event in read_journal(journal):
        if event["event"] == "guest paused" and "suffered_s" in event:
            yield event["suffered_s"]


def left_behind() -> list[str]:
    """Return the control groups of guests that still exist."""
    return [str(path) for path in find_version().mount.rglob(f"{PREFIX}-*")]


def main() -> None:
    """Run all ways in turn, and write the page."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--port", type=int, default=21_000)
    asked = parser.parse_args()
    runs: dict[str, list[Run]] = {name: [] for name in WAYS}
    with open_folder() as folder:
        nodes = tree_files(folder, 2, asked.port)
        with running(folder, nodes) as cluster:
            for round_ in range(asked.rounds):
                alone: dict[str, float] = {}
                for name, way in WAYS.items():
                    with TemporaryDirectory() as own:
                        runs[name].append(run_once(cluster, Path(own), way, alone, round_))
                    print(name, runs[name][-1], flush=True)
    assert left_behind() == []
    rows: list[list[Cell]] = []
    for name, found in runs.items():
        slower = {kind: float(np.mean([run.slower[kind] for run in found])) for kind in KINDS}
        after = [seconds for run in found for seconds in run.paused_after_s]
        rows.append([
            name, *(float(np.mean([getattr(run, key) for run in found])) for key in ("hosts_s", "all_s", "response_s")),
            sum(run.done for run in found), float(np.mean([run.busy for run in found])), *slower.values(),
            sum(run.pauses for run in found), max(after, default=None),
        ])  # fmt: skip
    header = (
        "guests run", "hosts done s", "all done s", "guest done s", "guests done", "cores busy",
        *(f"{kind} x" for kind in KINDS), "pauses", "suffered s, most",
    )  # fmt: skip
    digits = (None, 1, 1, 1, None, 2, 2, 2, 2, 2, None, 2)
    write_page(
        "live_guests",
        "Guests on the cores of real jobs",
        CLAIM,
        [aligned_table(header, rows, digits)],
        f"{asked.rounds} rounds; {len(KINDS)} hosts of {HOST_S:g} s on two nodes, each a core of this machine, and "
        f"{len(GUESTS)} guests of {GUEST_S:g} s. `x` is the run time of the host of a kind over that alone; *guest "
        "done* is the mean time until a guest has ended; *cores busy* is until the last host has ended, of two. A "
        "guest is paused when its host takes more than 1.5 times as long as alone at two looks half a second apart; "
        "the last column is for how long it had suffered then.",
    )


if __name__ == "__main__":
    main()
