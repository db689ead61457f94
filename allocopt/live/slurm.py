"""The nodes and jobs of a running Slurm, and the few commands that change them.

Jobs are read as JSON, because users may write anything into names and comments. All times are in UTC.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, MEMORY, THOUSANDTHS, Cluster
from allocopt.cluster.conf_lines import ConfLine
from allocopt.cluster.hostlist import HostlistExpander, expand_hostlist, fold_hostlist
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_conf import conf_lines, slurm_cluster
from allocopt.cluster.slurm_jobs import (
    MAY_START,
    RUNNING,
    TASK_LIMIT,
    Queue,
    array_tasks,
    job_request,
    job_state,
    queue_of,
)
from allocopt.cluster.slurm_records import job_values, unwrapped
from allocopt.cluster.topology_conf import slurm_topology
from allocopt.cluster.unserved import unmodelled
from allocopt.errors import AllocoptError, BadFileError, MissingPackageError
from allocopt.files.cells import instant_s

MARK = "allocopt"
"""First word of the administrator's comment of a job that a service has held, pinned or moved in the queue."""
USABLE = frozenset(("idle", "mixed", "allocated", "planned"))
"""States of nodes on which jobs start. A state with a flag, such as ``idle*``, is not among them."""
WAITING = MAY_START | {"BeginTime"}
"""Reasons of pending jobs that may start as soon as there is room, if their begin time has come."""
NO_LIMIT_S = 1e8
"""Time limit in seconds that is assumed for a job without one."""
ANSWER_S = 60.0
"""Seconds to wait for an answer."""
_LEFT = ("het_job_id", "resv_name", "excluded_nodes", "required_nodes")
"""Requests that are understood but cannot be combined with pinned nodes; jobs with one of them are left to Slurm."""
_GPU = re.compile(r"(?:gres[:/])?gpu(?:[:/]([^:=,()\d][^:=,()]*))?(?:[:=](\d+))?(?:\(.*?\))?(?:,|$)")
_MARKED = re.compile(r"\b([a-z]+)=(-?\d{1,18})\b", re.ASCII)
_SHOWN = re.compile(r"(\w+)=(\S*)")
# Faults of slurmctld, munge or the network, as opposed to refusals of a request.
_AWAY = re.compile(
    r"[Uu]nable to contact|timed out|Zero Bytes|[Cc]onnect|temporarily|standby|[Bb]roken pipe|[Aa]uthenticat|"
    r"Message (?:send|receive)"
)
_MOST_IDS = 1000  # job ids in a command, because an argument is limited to 128 KiB
_MOST_TASKS = 64  # tasks of an array that one look considers


class SlurmError(AllocoptError):
    """Slurm did not answer, or refused."""


class SlurmRefusedError(SlurmError):
    """Slurm answered with a refusal."""


class SlurmDeniedError(AllocoptError):
    """The user lacks the rights for a request."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as Slurm reports it; times in seconds since 1970.

    Parameters
    ----------
    id, user, partition, qos, comment, admin_comment, state, reason
        As Slurm reports them; task 3 of the array 7 has the id 7_3.
    priority
        The highest is considered first.
    limit_s
        Its time limit in seconds; infinite if it has none.
    submit_s
        When it was submitted.
    begin_s
        When it may start at the earliest.
    start_s, end_s
        When it started and ended; while it runs, the end is start plus limit.
    request
        Its request; None if it is not understood.
    fault
        Why the request is not understood.
    required
        Hostlist of the nodes that it asks for.
    allocated
        Cores, MiB of memory and number of GPUs of any type that it has, by node.
    name
        The name that its user gave it.
    together
        Hostlist of the ids of all tasks of its array that Slurm lists as one job; empty if there are none.
    nice
        Its nice value, which is subtracted from its priority; set by its user or by a service.
    restarts
        How often Slurm has requeued it, for any reason.
    """

    id: str
    user: str
    partition: str
    qos: str
    comment: str
    admin_comment: str
    state: str
    reason: str
    priority: int
    limit_s: float
    submit_s: float
    begin_s: float
    start_s: float
    end_s: float
    request: Request | None
    fault: str = ""
    required: str = ""
    allocated: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    name: str = ""
    together: str = ""
    nice: int = 0
    restarts: int = 0

    @property
    def finite_limit_s(self) -> float:
        """Its time limit, or ``NO_LIMIT_S``."""
        return min(self.limit_s, NO_LIMIT_S)

    @property
    def number(self) -> tuple[int, ...]:
        """Its id as numbers, to sort by: two for a task of an array."""
        return tuple(map(int, self.id.split("_")))

    @property
    def is_marked(self) -> bool:
        """Whether a service has held, pinned or moved it in the queue."""
        return re.split("[ ,]", self.admin_comment)[0] == MARK

    @property
    def mark(self) -> Mapping[str, int]:
        """Numbers of the mark, by name.

        ``priority`` before the job was held; ``by``, the time at which the service began, in ms; ``pinned`` and
        ``requeued``, the times of these, in s; ``least`` and ``most``, the nodes that the job asked for; ``nice``
        before the job was moved in the queue.
        """
        return {key: int(value) for key, value in _MARKED.findall(self.admin_comment)} if self.is_marked else {}

    @property
    def own_priority(self) -> int:
        """Its priority without the effects of a service that holds it or moves it in the queue."""
        return self.mark.get("priority", self.priority + self.nice - self.own_nice)

    @property
    def own_nice(self) -> int:
        """The nice value that its user gave it."""
        return self.mark.get("nice", self.nice)

    @property
    def is_placed(self) -> bool:
        """Whether a service has moved it in the queue."""
        return "nice" in self.mark

    @property
    def is_delayed(self) -> bool:
        """Whether a service has set its begin time, because it holds or pins the job."""
        return self.is_marked and not self.is_placed

    @property
    def is_pinned(self) -> bool:
        """Whether a service has pinned it to nodes."""
        return "pinned" in self.mark


@dataclass(frozen=True, slots=True)
class Closure:
    """A reservation: nodes that the service gives to no job from a start until an end."""

    start_s: float
    end_s: float
    nodes: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, eq=False)
class Look:
    """The jobs and nodes of a cluster at one time.

    Parameters
    ----------
    now_s
        Seconds since 1970 by the clock of this machine.
    cluster
        The cluster, all its nodes.
    jobs
        Jobs that wait or run, and those that have ended lately, if Slurm still lists them.
    away
        States of the nodes on which no job may start, by name.
    closures
        Reservations.
    listed
        The records of the jobs from ``squeue --json``.
    """

    now_s: float
    cluster: Cluster
    jobs: tuple[SlurmJob, ...]
    away: Mapping[str, str]
    closures: tuple[Closure, ...] = ()
    listed: Sequence[Mapping[str, Any]] = ()

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each node by its name."""
        return {name: number for number, name in enumerate(self.cluster.topology.nodes)}

    def held(self, *jobs: SlurmJob) -> tuple[IntArray, IntArray]:
        """Return the nodes of some jobs, and the amounts that the jobs hold on each node, as in `Cluster.capacity`."""
        told: dict[int, tuple[int, int, int]] = {}
        for job in jobs:
            for name, (cores, memory, gpus) in job.allocated.items():
                node = self.numbers.get(name)
                if node is not None:
                    before = told.get(node, (0, 0, 0))
                    told[node] = (before[0] + cores, before[1] + memory, before[2] + gpus)
        nodes = np.array(list(told), dtype=np.int64)
        capacity = self.cluster.capacity[nodes]
        amounts = np.zeros_like(capacity)
        columns = [self.cluster.resources.index(name) for name in (CORES, MEMORY, GPUS)]
        scale = (THOUSANDTHS, 1, THOUSANDTHS)
        amounts[:, columns] = np.array(list(told.values()), dtype=np.int64).reshape(-1, 3) * scale
        # A node without free cores is full, even if memory or GPUs are left.
        whole = capacity[:, 0] <= amounts[:, 0]
        amounts[whole] = capacity[whole]
        return nodes, amounts

    def queue_with(self, waiting: str, *, in_one_leaf: bool = False) -> Queue:
        """Return the jobs that have nodes, and one that waits, like a queue that is read from files.

        If the waiting job gets room ``in_one_leaf``, its ``--switches`` is met anyway and left out. Nodes and begin
        times that a service has set are left out, too. Raises `BadFileError` if a value cannot be read.
        """
        jobs, expander, lines = {job.id: job for job in self.jobs}, HostlistExpander(), []
        for told in self.listed:
            job = jobs.get(_job_id(told))
            if job is None or not (job.state in RUNNING or job.id == waiting):
                continue
            values = job_values(told)
            if job.is_pinned:
                values.pop("reqnodelist", None)
            if job.is_delayed and job.state == "PENDING":
                values["reason"] = "None"
            if in_one_leaf and job.id == waiting:
                values.pop("switches", None)
            lines.append(ConfLine(Path("squeue --json"), f"job {job.id}", values, expander, is_printed=True))
        return queue_of((line, "") for line in lines)

    def gone_since(self, before: "Look") -> tuple[SlurmJob, ...]:
        """Return the jobs that had nodes at an earlier look and are no longer listed with nodes.

        They have ended meanwhile, at an unknown time: whether and how long Slurm lists an ended job depends on its
        version and on ``MinJobAge``.
        """
        listed = {job.id for job in self.jobs if job.allocated}
        return tuple(job for job in before.jobs if job.state in RUNNING and job.allocated and job.id not in listed)

    def open_until(self, end_s: float) -> BoolArray:
        """Return which nodes are up and not reserved until ``end_s``, so that a job may run there until then."""
        found = self._up.copy()
        for one in self.closures:
            if one.start_s < end_s and self.now_s < one.end_s:
                found[self.known(one.nodes)] = False
        return found

    @cached_property
    def _up(self) -> BoolArray:
        found = np.ones(self.cluster.size, dtype=np.bool_)
        found[self.known(self.away)] = False
        return found

    def known(self, names: Iterable[str]) -> IntArray:
        """Return the numbers of the named nodes, without names that the cluster does not have."""
        return np.array([self.numbers[name] for name in names if name in self.numbers], dtype=np.int64)


class Slurm:
    """A Slurm that is accessed by its own commands.

    Parameters
    ----------
    env
        The environment of the commands; None for that of this process.
    answer_s
        Seconds to wait for an answer.

    Raises
    ------
    MissingPackageError
        If a command is not installed.
    """

    def __init__(self, env: Mapping[str, str] | None = None, answer_s: float = ANSWER_S) -> None:
        self.answer_s = answer_s
        # These variables may filter what squeue and sinfo list.
        own = {
            name: value
            for name, value in (os.environ if env is None else env).items()
            if not name.startswith(("SQUEUE_", "SINFO_"))
        }
        # Without a limit of length, all tasks of an array are listed.
        self.env = {**own, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0"}
        for name in ("squeue", "sinfo", "scontrol"):
            if shutil.which(name, path=self.env.get("PATH")) is None:
                raise MissingPackageError(f"{name} is not in PATH: install Slurm's commands (Debian: slurm-client)")
        self._cluster: Cluster | None = None

    def said(self, *command: str) -> str:
        """Return the output of a command. If it fails, raise a `SlurmError` with the first line of its complaint."""
        done = self._run(*command)
        if done.returncode:
            lines, shown = done.stderr.strip().splitlines(), " ".join(command[:3])
            # While slurmctld restarts, scontrol may fail without a message, which is no refusal.
            raise _fault(shown, lines[0]) if lines else SlurmError(f"{shown}: no message, exit code {done.returncode}")
        return done.stdout

    def _run(self, *command: str, lines: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        try:
            # Names and comments of users may be in any encoding, or invalid.
            return subprocess.run(
                command,
                env=self.env,
                input="".join(f"{line}\n" for line in lines),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.answer_s,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{command[0]} does not answer within {self.answer_s:g} s") from None

    def processes_of(self, job: str, node: str) -> frozenset[int]:
        """Return the process ids of a job on this machine, given its node name; empty if the job has ended.

        Raises `SlurmError` if Slurm does not answer in time.
        """
        # The command fails if a step has just ended, but still lists the processes of the others.
        lines = self._run("scontrol", "listpids", job, node).stdout.splitlines()
        words = (line.split() for line in lines)
        return frozenset(int(one[0]) for one in words if len(one) > 1 and one[0].isdecimal())

    def config(self) -> dict[str, str]:
        """Return the configuration that slurmctld has loaded."""
        return dict(_SHOWN.findall(re.sub(r" *= *", "=", self.said("scontrol", "show", "config"))))

    def cluster(self, *, anew: bool = False) -> Cluster:
        """Return nodes, partitions and topology. They are read once, and again if ``anew`` is set."""
        if self._cluster is None or anew:
            config = self.config()
            settings = "".join(f"{key}={config.get(key, '')}\n" for key in ("SelectType", "SelectTypeParameters"))
            # Nodes that are down are kept, because they may be up at the next look.
            texts = {
                "scontrol show config": settings,
                "scontrol show node": self.said("scontrol", "-a", "-o", "show", "node"),
                "scontrol show partition": self.said("scontrol", "-a", "-o", "show", "partition"),
            }
            expander = HostlistExpander()
            found = slurm_cluster(
                [line for name, text in texts.items() for line in conf_lines(Path(name), text, expander)]
            )
            switches = (
                self.said("scontrol", "show", "topology") if "none" not in config.get("TopologyPlugin", "") else ""
            )
            if "=" in switches:
                found = found.under(slurm_topology(switches, Path("scontrol show topology")))
            self._cluster = found
        return self._cluster

    def look(self) -> Look:
        """Return the jobs and the states of nodes now. Raises `SlurmError` if Slurm does not answer."""
        asked = (
            ("sinfo", "-h", "-a", "-o", "%T|%N"),
            # Without -t all, newer versions list no job that has ended.
            ("squeue", "-a", "-t", "all", "--json"),
            ("scontrol", "-o", "show", "reservation"),
        )
        with ThreadPoolExecutor(len(asked)) as at_once:
            states, queue, booked = at_once.map(lambda command: self.said(*command), asked)
        jobs = listed_jobs(queue)
        nodes_in = (line.partition("|")[::2] for line in states.splitlines())
        away = {
            name: state for state, hostlist in nodes_in if state not in USABLE for name in expand_hostlist(hostlist)
        }
        closures = [dict(_SHOWN.findall(line)) for line in booked.splitlines() if " Nodes=" in line]
        return Look(
            time.time(),
            self.cluster(),
            slurm_jobs(jobs),
            away,
            tuple(
                Closure(
                    instant_s(one["StartTime"]),
                    instant_s(one["EndTime"]),
                    tuple(expand_hostlist("" if one["Nodes"] == "(null)" else one["Nodes"])),
                    one.get("ReservationName", ""),
                )
                for one in closures
            ),
            jobs,
        )

    def update(self, jobs: Sequence[str], **values: str) -> None:
        """Set values of waiting jobs. Raises `SlurmError` if Slurm refuses, `SlurmDeniedError` without the rights."""
        told = [f"{key}={value}" for key, value in values.items()]
        for at in range(0, len(jobs), _MOST_IDS):
            self.said("scontrol", "update", f"JobId={','.join(jobs[at : at + _MOST_IDS])}", *told)

    def requeue(self, job: str) -> None:
        """Stop a running batch job and requeue it. Raises `SlurmError` if Slurm refuses."""
        self.said("scontrol", "requeue", job)

    def reserve(self, name: str, nodes: Sequence[str], until_s: float, *, anew: bool) -> None:
        """Reserve nodes against waiting jobs until a time. If not ``anew``, only change the end of the reservation."""
        end = f"EndTime={datetime.fromtimestamp(until_s, UTC):%Y-%m-%dT%H:%M:%S}"
        if not anew:
            self.said("scontrol", "update", f"ReservationName={name}", end)
            return
        # Slurm requires a user who may use the reservation. No job of this user asks for it.
        user = f"Users={pwd.getpwuid(os.geteuid()).pw_name}"
        listed = f"Nodes={fold_hostlist(nodes)}"
        made = ("StartTime=now", end, "Flags=IGNORE_JOBS")
        self.said("scontrol", "create", "reservation", f"ReservationName={name}", listed, user, *made)

    def end_reservation(self, name: str) -> None:
        """Delete a reservation, so that jobs may use its nodes."""
        self.said("scontrol", "delete", f"ReservationName={name}")

    def update_each(self, values: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Set values of waiting jobs, given by job id, in one call; return the reasons of refusals by job id.

        Values must not contain blanks. Raises `SlurmError` if Slurm does not answer, `SlurmDeniedError` without the
        rights.
        """
        told = [
            " ".join(["update", f"JobId={job}", *(f"{key}={value}" for key, value in of_job.items())])
            for job, of_job in values.items()
        ]
        refused: dict[str, str] = {}
        for line in self._run("scontrol", "-Q", lines=told).stderr.splitlines() if told else ():
            fault, _, job = line.rpartition(" for job ")
            error = _fault("scontrol update", fault or line)
            if not isinstance(error, SlurmRefusedError):
                raise error
            refused[job.strip()] = str(error)
        return refused


def _fault(command: str, line: str) -> AllocoptError:
    """Return the error for a line that a command wrote to standard error."""
    line = line.removeprefix("slurm_")
    if "ermission denied" in line:
        fault = "to pin, order or requeue jobs, run as a Slurm operator; to observe, no rights are needed"
        return SlurmDeniedError(f"{command}: {line}: {fault}")
    return (SlurmError if _AWAY.search(line) else SlurmRefusedError)(f"{command}: {line}")


def listed_jobs(queue: str) -> Sequence[Mapping[str, Any]]:
    """Return the records of jobs in the output of ``squeue --json``. Raises `SlurmError` if that is something else."""
    try:
        jobs: Sequence[Mapping[str, Any]] = json.loads(queue)["jobs"]
    except (ValueError, KeyError, TypeError):
        raise SlurmError("squeue --json printed something other than a list of jobs") from None
    return jobs


def slurm_jobs(listed: Sequence[Mapping[str, Any]]) -> tuple[SlurmJob, ...]:
    """Return the jobs of the records of ``squeue --json``, of version 22.05 to 26.

    A record of several waiting tasks of an array gives only its first tasks, as many as may run at once.
    """
    found: list[SlurmJob] = []
    begun: Counter[float | None] = Counter()
    arrays = []
    for told in listed:
        job = slurm_job(told)
        if job.state == "PENDING" and told.get("array_task_string"):
            arrays.append((job, told))
            continue
        found.append(job)
        if job.is_pinned if job.state == "PENDING" else job.state in RUNNING:
            begun[_number(told.get("array_job_id"))] += 1
    for job, told in arrays:
        array = _number(told["array_job_id"])
        tasks, _ = array_tasks(str(told["array_task_string"]))
        together = f"{array:.0f}_[{','.join(map(str, tasks))}]"
        room = min(int(_number(told.get("array_max_tasks")) or _MOST_TASKS + begun[array]) - begun[array], _MOST_TASKS)
        one_of = replace(job, together=together, reason=job.reason if room > 0 else TASK_LIMIT)
        first = expand_hostlist(together)[: max(room, 1) if job.request is not None else 1]
        found += [replace(one_of, id=task) for task in first]
    return tuple(found)


def slurm_job(told: Mapping[str, Any]) -> SlurmJob:
    """Return the job of a record of ``squeue --json``. All waiting tasks of an array are one job."""
    limit = _number(told.get("time_limit"))
    request, fault = None, ""
    strange = [key for key in _LEFT if _is_told(told.get(key))]
    # The required nodes of a pinned job are those of the pin, not of its user.
    required = str(told.get("required_nodes") or "")
    if required and re.match(rf"{MARK} .*\bpinned=", str(told.get("admin_comment"))):
        strange.remove("required_nodes")
    if strange:
        fault = unmodelled(strange)
    else:
        try:
            record = ConfLine(Path("squeue --json"), f"job {told['job_id']}", job_values(told), HostlistExpander())
            request = job_request(record)
            if request.unmodelled:
                fault = unmodelled(request.unmodelled)
                request = None
        except BadFileError as error:
            fault = str(error)
    return SlurmJob(
        _job_id(told),
        str(told.get("user_name") or told.get("user_id")),
        str(told.get("partition") or ""),
        str(told.get("qos") or ""),
        str(told.get("comment") or ""),
        str(told.get("admin_comment") or ""),
        job_state([told["job_state"]] if isinstance(told["job_state"], str) else told["job_state"]),
        str(told.get("state_reason") or "None"),
        int(_number(told.get("priority")) or 0),
        60.0 * limit if limit is not None else np.inf,
        _number(told.get("submit_time")) or 0.0,
        _number(told.get("eligible_time")) or 0.0,
        _number(told.get("start_time")) or 0.0,
        _number(told.get("end_time")) or np.inf,
        request,
        fault,
        required,
        dict(_allocated(told)),
        str(told.get("name") or ""),
        nice=_nice(told.get("nice")),
        restarts=int(_number(told.get("restart_cnt")) or 0),
    )


def _job_id(told: Mapping[str, Any]) -> str:
    task = _number(told.get("array_task_id"))
    return str(told["job_id"]) if task is None else f"{_number(told['array_job_id']):.0f}_{task:.0f}"


def _nice(told: Any) -> int:
    number = int(_number(told) or 0)
    # Slurm 22.05 writes a negative value as an unsigned number of 32 bits.
    return number - 2**32 if number >= 2**31 else number


def _number(told: Any) -> float | None:
    number = unwrapped(told)
    return None if number is None else float(number)


def _is_told(told: Any) -> bool:
    return bool(_number(told)) if isinstance(told, dict) else bool(told)


def _allocated(told: Mapping[str, Any]) -> Iterable[tuple[str, tuple[int, int, int]]]:
    held = told.get("job_resources") or {}
    gpus = [
        sum(int(one[2] or 1) for one in _GPU.finditer(re.sub(r"\(.*?\)", "", text)))
        for text in told.get("gres_detail") or ()
    ]
    nodes = held.get("nodes")
    if isinstance(nodes, dict):
        listed = [
            (one["name"], int(one["cpus"]["count"]), int(one["memory"]["allocated"])) for one in nodes["allocation"]
        ]
    else:
        listed = [
            (
                one["nodename"],
                sum(len(socket["cores"]) for socket in (one.get("sockets") or {}).values()),
                int(one.get("memory_allocated") or 0),
            )
            for one in held.get("allocated_nodes") or ()
        ]
    for at, (name, cores, memory) in enumerate(listed):
        yield name, (cores, memory, gpus[at] if at < len(gpus) else 0)
