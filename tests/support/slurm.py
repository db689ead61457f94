"""Which nodes a real Slurm chooses: a controller on this machine whose nodes are only names, and recorded choices."""

import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.cluster.topology_conf import write_slurm_topology
from allocopt.problems.topology import Job, TopologyProblem
from benchmarks.virtual_slurm import plugin_lines

PROGRAMS = ("munged", "slurmctld", "sbatch", "scontrol", "squeue", "setpriv")
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
"""Where they are looked for: daemons lie where only root looks."""
AT_ONCE = 8
"""Clusters that run at the same time."""
ENOUGH_S = 60.0
"""Time in which daemons answer and jobs start, on the busiest machine."""

CONFIGURATION = """\
ClusterName=allocopt
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,default_queue_depth=10000,partition_job_depth=0
ResumeProgram=/bin/true
SuspendProgram=/bin/true
ResumeTimeout=65000
SuspendTime=-1
NodeName={nodes} NodeAddr=127.0.0.1 CPUs=1 State=CLOUD
PartitionName=main Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE
"""
"""Nodes of a cloud, which Slurm allots before they run: no node daemon is needed, and none of them ever comes."""

MACHINE = FatTree(4, 4, 8)


def missing() -> str | None:
    """Why no Slurm can be started here, or None."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if absent:
        return f"needs {', '.join(absent)} (Debian: slurmctld slurm-client munge)"
    found = version()
    return None if is_known(release(found)) else f"needs Slurm 22.05, or 24.11 or later, finds {found}"


def version() -> str:
    """Return what the controller calls itself, such as ``slurm-wlm 22.05.8``."""
    command = [str(shutil.which("slurmctld", path=PATH)), "-V"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def release(found: str) -> tuple[int, int]:
    """Return the release in what a controller calls itself: (22, 5) of ``slurm-wlm 22.05.8``."""
    numbers = re.search(r"(\d+)\.(\d+)", found)
    assert numbers is not None, f"no version of Slurm: {found}"
    return int(numbers[1]), int(numbers[2])


def is_known(of: tuple[int, int]) -> bool:
    """Return whether the tree rule of a release is known."""
    return of == (22, 5) or of >= (24, 11)


def rule_of(of: tuple[int, int], problem: TopologyProblem) -> str | None:
    """Return the solver that follows the tree rule of a release, None if there is none for the jobs of a window."""
    if of == (22, 5):
        return "slurm-tree-22.05"
    # Before 26.05, a job of one node took the walk of the others.
    return "slurm-tree" if of >= (26, 5) or problem.sizes.min() > 1 else None


def slurm_window(seed: int) -> TopologyProblem:
    """Return a random window on 4 pods of 4 leaves of 8 nodes, as full of jobs as it gets."""
    rng = np.random.default_rng(seed)
    idle = np.flatnonzero(rng.random(MACHINE.size) < rng.uniform(0.3, 0.95))
    sizes = rng.integers(1, 25, size=MACHINE.size)
    kept = sizes[np.cumsum(sizes) <= len(idle)].tolist()
    jobs = tuple(Job(f"job-{index}", size) for index, size in enumerate(kept))
    return TopologyProblem(MACHINE, idle, jobs, name=f"slurm-{seed}")


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A window of `slurm_window`, the nodes that Slurm 26.11 gave to its jobs, and the proven optimal hop cost."""

    problem: TopologyProblem
    placed: list[list[int]]
    optimum: float


def recorded_windows(shared_data: Path) -> list[RecordedWindow]:
    """Return the windows in which a Slurm 26.11, which this machine lacks, placed the jobs one after the other."""
    found = []
    for one in json.loads((shared_data / "slurm_choices" / "tree_26.11_windows.json").read_text(encoding="utf-8")):
        machine = FatTree(one["pods"], one["leaves_per_pod"], one["nodes_per_leaf"])
        jobs = tuple(Job(f"job-{index}", size) for index, size in enumerate(one["sizes"]))
        problem = TopologyProblem(machine, np.array(one["idle"]), jobs, name=f"slurm-{one['seed']}")
        found.append(RecordedWindow(problem, [sorted(nodes) for nodes in one["placed"]], one["optimum"]))
    return found


def chosen_by_slurm(problems: Sequence[TopologyProblem]) -> list[list[list[int]]]:
    """Return the nodes that Slurm gives to the jobs of every window, each on a cluster of its own.

    Several clusters run at once: each takes seconds to look at its jobs.
    """
    chosen = []
    for first in range(0, len(problems), AT_ONCE):
        with ExitStack() as clusters:
            submitted = []
            for problem in problems[first : first + AT_ONCE]:
                slurm = clusters.enter_context(Slurm(problem.topology))
                slurm.occupy(np.setdiff1d(np.arange(problem.topology.size), problem.idle_nodes).tolist())
                submitted.append((slurm, slurm.submit(problem.sizes.tolist())))
            chosen += [slurm.nodes_of(jobs) for slurm, jobs in submitted]
    return chosen


def named(topology: Topology) -> NamedTree:
    """Give nodes and switches names, n0 the first node."""
    groups = topology.groups_of(np.arange(topology.size))
    names = tuple(
        tuple(f"level{depth}-{group}" for group in range(row.max() + 1)) for depth, row in enumerate(groups, 1)
    )
    tree = Tree(groups, names, topology.hops)
    return NamedTree(tree, tuple(f"n{node}" for node in range(topology.size)))


class Slurm:
    """A Slurm controller of one's own, a context manager; everything it writes lies in a temporary folder.

    Its two daemons end with the context, and with the process that opened it, however that ends.

    Parameters
    ----------
    topology
        The cluster, its leaves in the order of Slurm's file and its nodes in that of their names.
    """

    def __init__(self, topology: Topology) -> None:
        self._cluster = named(topology)
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        # The path of a Unix socket is short, and munge asks for a folder that all may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self._folder.chmod(0o755)
        # Where the tests run in a job of another Slurm, its variables say what to ask for.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SQUEUE"))}
        self._environment = {**own, "PATH": PATH, "SLURM_CONF": str(self._folder / "slurm.conf")}
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def occupy(self, nodes: Iterable[int]) -> None:
        """Drain nodes: no job gets them."""
        names = fold_hostlist([self._cluster.nodes[node] for node in nodes])
        if names:
            self._ask("scontrol", "update", f"NodeName={names}", "State=DRAIN", "Reason=occupied")

    def submit(self, sizes: Iterable[int]) -> list[str]:
        """Submit jobs of so many whole nodes, which start in this order, and return their numbers."""
        job = ("sbatch", "--parsable", "--output", "/dev/null", "--wrap", "true", "--nodes")
        return [self._ask(*job, str(size)).strip() for size in sizes]

    def nodes_of(self, jobs: Sequence[str]) -> list[list[int]]:
        """Wait until jobs have started, and return the nodes of each."""
        nodes: dict[str, str] = {}

        def all_started() -> bool:
            lines = self._ask("squeue", "--noheader", "--states", "CONFIGURING", "--format", "%i %N").splitlines()
            nodes.update(line.split() for line in lines)
            return nodes.keys() >= set(jobs)

        self._wait(all_started, "jobs do not start")
        return [sorted(self._cluster.numbers(expand_hostlist(nodes[job]))) for job in jobs]

    def _start(self) -> None:
        """Start both daemons, and wait until the controller answers."""
        folder = self._folder
        (folder / "key").touch(0o600)
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "state").mkdir()
        write_slurm_topology(folder / "topology.conf", self._cluster)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        configuration = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            port=port,
            user=pwd.getpwuid(os.getuid()).pw_name,
            folder=folder,
            nodes=fold_hostlist(self._cluster.nodes),
        )
        plugins = plugin_lines(Path(str(shutil.which("slurmctld", path=PATH))))
        (folder / "slurm.conf").write_text("\n".join([configuration, *plugins, ""]), encoding="utf-8")
        files = {"socket": "munge", "key-file": "key", "pid-file": "munged.pid", "seed-file": "seed"}
        self._daemon("munged", "--foreground", *(f"--{option}={folder / name}" for option, name in files.items()))
        self._wait((folder / "munge").exists, "munged does not start")
        self._daemon("slurmctld", "-D", "-i", "-f", str(folder / "slurm.conf"))
        self._wait(lambda: " is UP" in self._ask("scontrol", "ping", check=False), "slurmctld does not start")

    def _daemon(self, *command: str) -> None:
        """Start a program that is killed with this process, and whose children are killed with it."""
        with (self._folder / f"{command[0]}.out").open("wb") as output:
            daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._daemons.append(daemon)

    def _stop(self) -> None:
        """End the daemons, the controller first, and remove what they wrote."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(timeout=10)
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        shutil.rmtree(self._folder)

    def _ask(self, *command: str, check: bool = True) -> str:
        """Return what a command of Slurm prints."""
        return subprocess.run(
            command, env=self._environment, stdout=subprocess.PIPE, text=True, timeout=ENOUGH_S, check=check
        ).stdout

    def _wait(self, done: Callable[[], bool], fault: str) -> None:
        """Wait until something is done, or say what the daemons said."""
        end = time.monotonic() + ENOUGH_S
        while not done():
            if any(daemon.poll() is not None for daemon in self._daemons) or time.monotonic() > end:
                said = "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.out"))
                raise RuntimeError(f"{fault}: {said}")
            time.sleep(0.05)
