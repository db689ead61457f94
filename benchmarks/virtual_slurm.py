"""A real Slurm on virtual nodes of this machine: ``python -m benchmarks.virtual_slurm --nodes 128``.

Needs Slurm's daemons and munge, such as Debian's packages slurmctld, slurmd, slurm-client and munge, and root. It was
tested with Slurm 22.05, and should also work with 24.11 and later. It uses the first slurmctld in PATH.
"""

import os
import shutil
import socket
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol", "setpriv")
LEAVES_PER_POD, NODES_PER_LEAF = 4, 8
JOB_SUBMIT = Path(__file__).parents[1] / "docs" / "guide" / "job_submit.lua"
# Settings that are the same in all clusters: authentication, folders and time-outs of one machine.
OWN = """\
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=600
SlurmctldTimeout=3000
SlurmdTimeout=0
"""
TREE = """\
ClusterName=virtual
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
PriorityType=priority/basic
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_resolution=1,sched_interval=2,batch_sched_delay=0
MaxJobCount=100000
"""


@dataclass(frozen=True, slots=True)
class VirtualSlurm:
    """A running cluster: its folder, and the environment for its commands."""

    folder: Path
    env: dict[str, str]
    daemons: list[subprocess.Popen[bytes]]

    def start(self, *command: str) -> None:
        """Start a daemon, which is stopped with the cluster."""
        # The daemon also ends if this process dies.
        guarded = ("setpriv", "--pdeathsig", "KILL", *command)
        with (self.folder / "daemons.out").open("ab") as out:
            self.daemons.append(
                subprocess.Popen(guarded, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env)
            )

    def stop(self) -> None:
        """Stop all daemons, the last one first."""
        for one in reversed(self.daemons):
            one.kill()
        for one in self.daemons:
            one.wait()

    def said(self, *command: str) -> str:
        """Return the output of a command; raise `subprocess.CalledProcessError` if it fails."""
        done = subprocess.run(command, env=self.env, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def submitted(self, nodes: int, seconds: float, *more: str) -> str:
        """Submit a job that sleeps for some seconds, and return its id."""
        body = ("--wrap", f"exec sleep {seconds:g}")
        return self.said("sbatch", "--parsable", "-N", str(nodes), "-t", "1", "-o", "/dev/null", *more, *body)

    def restart(self) -> None:
        """Stop slurmctld and start it again."""
        self._slurmctld.terminate()
        self._slurmctld.wait()
        self.start("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        self.wait()

    def wait(self) -> None:
        """Wait until slurmctld answers and no node is down; raise `SystemExit` if it has ended."""
        while self._slurmctld.poll() is None:
            with suppress(subprocess.CalledProcessError):
                states = self.said("sinfo", "-h", "-o", "%T").split()
                if states and not any("*" in one or one in ("down", "unknown") for one in states):
                    return
            time.sleep(0.3)
        raise SystemExit("".join((self.folder / "slurmctld.log").read_text().splitlines(keepends=True)[-5:]))

    @property
    def _slurmctld(self) -> subprocess.Popen[bytes]:
        return next(one for one in reversed(self.daemons) if "slurmctld" in one.args)  # type: ignore[operator]


def missing() -> list[str]:
    """Return the missing requirements of a virtual cluster."""
    path = os.environ["PATH"] + ":/usr/sbin"
    return [name for name in NEEDED if shutil.which(name, path=path) is None] + ["root"] * (os.geteuid() != 0)


def tree_files(
    folder: Path, nodes: int, port: int, *, cores: int = 1, node: str = "", partitions: str = "", settings: str = ""
) -> list[str]:
    """Write slurm.conf and topology.conf of pods of four leaves of eight nodes; return the names of the nodes.

    Nodes with one core are exclusive. Lines in ``settings`` replace default lines.
    """
    names = [f"n{number:04}" for number in range(nodes)]
    lines = [*own_lines(folder, port), *TREE.splitlines()]
    keys = {line.split("=")[0] for line in settings.splitlines()}
    lines = [line for line in lines if line.split("=")[0] not in keys] + settings.splitlines()
    host = socket.gethostname().split(".")[0]
    ports = f"[{port + 1}-{port + nodes}]"
    lines.append(
        f"NodeName=n[0000-{nodes - 1:04}] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} CPUs={cores} {node}"
    )
    shared = "EXCLUSIVE" if cores == 1 else "NO"
    lines += (partitions or f"PartitionName=main Nodes=ALL Default=YES OverSubscribe={shared}").splitlines()
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    leaves = [names[at : at + NODES_PER_LEAF] for at in range(0, nodes, NODES_PER_LEAF)]
    switches = [f"SwitchName=leaf{at:03} Nodes={','.join(leaf)}" for at, leaf in enumerate(leaves)]
    pods = range(0, len(leaves), LEAVES_PER_POD)
    for number, at in enumerate(pods):
        below = f"leaf[{at:03}-{min(at + LEAVES_PER_POD, len(leaves)) - 1:03}]"
        switches.append(f"SwitchName=pod{number:03} Switches={below}")
    switches += [f"SwitchName=top Switches=pod[000-{len(pods) - 1:03}]"] if len(pods) > 1 else []
    (folder / "topology.conf").write_text("\n".join(switches) + "\n")
    return names


def hooks(folder: Path, hold: int = 30) -> str:
    """Write the scripts by which Slurm wakes ``allocopt live``, and return the settings that refer to them.

    New jobs of partition main wait for the service ``hold`` seconds. File ``wake`` changes when a job is submitted or
    ends.
    """
    wake, ended = folder / "wake", folder / "ended"
    script = JOB_SUBMIT.read_text().replace("/run/allocopt/wake", str(wake)).replace("hold = 30", f"hold = {hold}")
    (folder / JOB_SUBMIT.name).write_text(script)
    ended.write_text(f"#!/bin/sh\ntouch {wake}\n")
    ended.chmod(0o755)
    return f"JobSubmitPlugins=lua\nEpilogSlurmctld={ended}"


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a temporary folder that other users may enter, which munge requires."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def running(folder: Path, nodes: Sequence[str], speed: int = 1) -> Iterator[VirtualSlurm]:
    """Run the cluster whose files are in a folder, with a clock that runs ``speed`` times as fast; stop it at the end.

    libfaketime makes the clock fast, so that all of Slurm's periods keep their settings. Munge requires that other
    users can enter the folder and those above it. Raises `SystemExit` if munge or slurmctld does not start.
    """
    (folder / "state").mkdir(exist_ok=True)
    (folder / "key").touch(0o600)
    (folder / "key").write_bytes(os.urandom(128))
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
    files = {"socket": "munge", "key-file": "key", "pid-file": "munged.pid", "seed-file": "seed", "log-file": "mlog"}
    cluster = VirtualSlurm(folder, env, [])
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        cluster.start("munged", "--foreground", *(f"--{key}={folder / name}" for key, name in files.items()))
        while not (folder / "munge").exists():
            if cluster.daemons[0].poll() is not None:
                raise SystemExit((folder / "daemons.out").read_text())
            time.sleep(0.1)
        if speed > 1:
            # All later processes share the fast clock of this shell, so it has to run as long as they do.
            clock = ("faketime", "-f", f"+0 x{speed}", "sh", "-c", "env; echo; read x")
            holder = stack.enter_context(
                subprocess.Popen(clock, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert holder.stdin is not None
            assert holder.stdout is not None
            shared = dict(line.rstrip("\n").partition("=")[::2] for line in iter(holder.stdout.readline, "\n"))
            env |= {name: shared[name] for name in ("LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED")}
        cluster.start("slurmctld", "-D", "-i", "-f", str(folder / "slurm.conf"))
        for node in nodes:
            cluster.start("slurmd", "-D", "-N", node, "-f", str(folder / "slurm.conf"))
        cluster.wait()
        yield cluster


def own_lines(folder: Path, port: int) -> list[str]:
    """Return the lines of a slurm.conf that are specific to this machine: authentication, folders and time-outs."""
    own = OWN.format(host=socket.gethostname().split(".")[0], port=port, folder=folder).splitlines()
    found = shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin")
    return own if found is None else own + plugin_lines(Path(found))


def plugin_lines(slurmctld: Path) -> list[str]:
    """Return the line with the folder of plugins, if slurmctld was built from source.

    Without it a Slurm that was moved after the build does not find its plugins. Packages need no such line.
    """
    prefix = slurmctld.resolve().parents[1]
    folders = (prefix / lib / "slurm" for lib in ("lib", "lib64"))
    return [f"PluginDir={folder}" for folder in folders if (folder / "topology_tree.so").exists()][:1]


def main() -> None:
    """Run a cluster until Ctrl-C."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--cores", type=int, default=1, help="cores of a node; with several, jobs share nodes")
    parser.add_argument(
        "--port", type=int, default=17000, help="first port; the cluster uses one more than it has nodes"
    )
    given = parser.parse_args()
    if lacking := missing():
        parser.exit(5, f"a virtual cluster needs {', '.join(lacking)}\n")
    with open_folder() as folder, suppress(KeyboardInterrupt):
        names = tree_files(folder, given.nodes, given.port, cores=given.cores)
        with running(folder, names):
            print(f"export SLURM_CONF={folder / 'slurm.conf'}", flush=True)
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
