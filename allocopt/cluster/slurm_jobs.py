"""Waiting jobs of Slurm: their requests, whether they may start now, and which of them start together.

They come from the output of ``scontrol show job`` and ``squeue``, as text or JSON, for `allocopt live` and
``allocopt generate window``.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse
from allocopt.cluster.conf_lines import NO_LIMIT, ConfLine
from allocopt.cluster.hostlist import HostlistError, expand_hostlist
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_keys import JOB_KEYS, KeyReport
from allocopt.cluster.tres import amount_of, demands_of, licenses_of
from allocopt.cluster.unserved import brief
from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, memory_mib
from allocopt.files.faults import shown

MAY_START = frozenset(("None", "Resources", "Priority"))
"""Reasons of waiting jobs that may start as soon as there is room (squeue(1), job reason codes)."""
IN_RESERVATION = "Reservation"
"""Reason of a job that waits for its reservation."""
RUNNING = frozenset(
    ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT")
)
"""States of jobs that have their nodes."""
HELD = frozenset(
    ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED", "REQUEUED", "REVOKED", "LAUNCH_FAILED")
)
"""States of jobs that wait and may not start."""
HOLD = "held"
"""Reason of a held job (priority 0) for which Slurm has not written a reason yet."""
TASK_LIMIT = "JobArrayTaskLimit"
"""Reason of array tasks that wait for other tasks of the array."""
MOST_TASKS = 1_000_000
"""Largest number of tasks of one array."""

_MEMORY = re.compile(r"(\d{1,12}(?:\.\d+)?)([KMGTP]?)", re.ASCII)
_STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_TRES_KEYS = {"trespernode": "node", "tresperjob": "job", "trespertask": "task", "trespersocket": "socket"}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A waiting job.

    Parameters
    ----------
    id
        Slurm's id; ``7_3`` for task 3 of the array 7.
    request
        Its request.
    waits_for
        Slurm's reason why it may not start now, empty if it may.
    reservation
        Name of the reservation that it runs in, empty if it runs in none.
    together
        Id of its heterogeneous job, whose components start together; empty for other jobs.
    limit_s
        Time limit in seconds, infinite if it has none; None if the limit is unknown.
    """

    id: str
    request: Request
    waits_for: str = ""
    reservation: str = ""
    together: str = ""
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that has nodes.

    Parameters
    ----------
    nodes
        Names of its nodes; empty if they are not given.
    cpus, memory_mib, gpus
        What a job on one node has of this node. ``cpus`` is 0 if this is unknown, as for a job on several nodes.
    record
        The record from which it was read, and from which `requested` derives its request; None if there is none.
    """

    nodes: tuple[str, ...]
    cpus: int = 0
    memory_mib: int = 0
    gpus: tuple[tuple[str, float], ...] = ()
    record: ConfLine | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """Slurm's id of the job, ``7_3`` for task 3 of the array 7; empty if it is unknown."""
        if self.record is None:
            return ""
        array, task = _given(self.record, "arrayjobid"), _given(self.record, "arraytaskid")
        name = f"{array}_{task}" if array and task else self.record.values.get("jobid", "")
        return name if re.fullmatch(r"\d+(_\d+)?", name, re.ASCII) else ""

    @property
    def is_known(self) -> bool:
        """Whether its record says how much of its nodes it has; a completing job has its nodes completely."""
        return self.record is not None and self._state != "COMPLETING"

    @property
    def is_unplaced(self) -> bool:
        """Whether it has nodes that cannot be read."""
        return not self.nodes and self.record is not None and bool(_given(self.record, "nodelist"))

    @property
    def allocated_cpus(self) -> int:
        """CPUs that it has on all its nodes together; 0 if unknown."""
        if self.record is None:
            return 0
        told = amount_of(self._allocated, "cpu")
        return int(told) or self.record.whole("numcpus")

    @property
    def allocated_memory_mib(self) -> float:
        """MiB of memory that it has on all its nodes together; 0 if unknown."""
        return amount_of(self._allocated, "mem") / 2**20

    @property
    def allocated_gpus(self) -> tuple[tuple[str, float], ...]:
        """GPUs that it has on all its nodes together, by type (empty for any type); no entries if unknown."""
        return demands_of(self._allocated).gpus

    @property
    def _allocated(self) -> str:
        return "" if self.record is None else _given(self.record, "alloctres") or _given(self.record, "tres")

    @property
    def reservation(self) -> str:
        """Name of the reservation that it runs in, empty if it runs in none."""
        return "" if self.record is None else _given(self.record, "reservation")

    @property
    def _state(self) -> str:
        values = {} if self.record is None else self.record.values
        return job_state(values.get("jobstate", "").upper().split(","))

    @property
    def may_be_requeued(self) -> bool:
        """Whether Slurm may requeue it now: it is a running batch job, and its user allows it.

        False for components of heterogeneous jobs, which can only stop together.
        """
        if self.record is None or self._state != "RUNNING" or _given(self.record, "hetjobid"):
            return False
        said = (self.record.values.get(key, "").strip().lower() for key in ("requeue", "batchflag"))
        return all(one in ("1", "true", "yes") for one in said)

    def requested(self) -> Request:
        """Return its request. Raises `BadFileError` if that cannot be read."""
        if self.record is None:
            return Request.whole_nodes(max(1, len(self.nodes)))
        return job_request(self.record)


@dataclass(frozen=True, slots=True)
class Queue:
    """The waiting jobs of a file, in its order, remarks about them, and the jobs that have nodes."""

    jobs: tuple[QueuedJob, ...] = ()
    remarks: tuple[str, ...] = ()
    running: tuple[RunningJob, ...] = ()


def queue_of(records: Iterable[tuple[ConfLine, str]], request_of: Callable[[ConfLine], Request] | None = None) -> Queue:
    """Return the waiting and running jobs of records.

    A record of waiting array tasks becomes one job per task; tasks above the array's limit wait for other tasks of the
    array. A record with a repeated key is left out, because its user may have forged one of the values.

    Parameters
    ----------
    records
        Pairs of a record and a key that occurs twice in it; the key is empty if none does.
    request_of
        Function that returns the request of a record; by default `job_request`.

    Raises
    ------
    BadFileError
        If a value cannot be read.
    """
    report = KeyReport("job", JOB_KEYS)
    forged: list[str] = []
    found: dict[str, QueuedJob] = {}
    begun: Counter[str] = Counter()
    waiting: list[ConfLine] = []
    running: list[RunningJob] = []
    others: Counter[str] = Counter()
    for line, twice in records:
        # Keys that are not modelled are counted elsewhere, with the jobs that are left out because of them.
        unknown = {key: "" for key in JOB_KEYS.unknown(line.values)}
        report.add("", unknown)
        if twice:
            forged.append(f"job {brief(line.values.get('jobid', ''))} has {brief(twice)} twice at {line.place}")
            running += _of_forged(line)
            continue
        state = job_state(line.word("jobstate", "").split(","))
        if state == "PENDING" or state in HELD:
            waiting.append(replace(line, values=line.values | {"jobstate": state}))
        elif state in RUNNING:
            running.append(_running(line, state))
            if array := _given(line, "arrayjobid"):
                begun[array] += 1
        else:
            others[brief(state) or "no state"] += 1
    for line in waiting:
        for job in _jobs(line, begun, request_of or job_request):
            if job.id in found:
                raise line.error(f"job {shown(job.id)} is given twice")
            found[job.id] = job
    remarks = (
        [f"jobs left out, as their user may have forged the record: {len(forged)} ({forged[0]})"] if forged else []
    )
    remarks += _cut_short_remarks(sum(is_cut_short(line.values.get("arraytaskid", "")) for line in waiting))
    if others:
        told = ", ".join(f"{state} {count}" for state, count in sorted(others.items()))
        remarks.append(f"jobs that neither wait nor run, left out: {others.total()} ({told})")
    return Queue(tuple(found.values()), (*remarks, *report.remarks()), tuple(running))


def job_state(words: Sequence[str]) -> str:
    """Return the decisive word of a job's state and flags.

    This is a state in which the job has nodes, or else a state in which it is held, or else the first word. In JSON,
    newer versions of Slurm list a state and its flags: a job that leaves its nodes is ``COMPLETED`` and ``COMPLETING``.
    """
    held = [word for word in words if word in HELD and (word != "REQUEUED" or "PENDING" not in words)]
    return next((word for word in reversed(words) if word in RUNNING), (held or list(words) or [""])[0])


def _running(line: ConfLine, state: str) -> RunningJob:
    # A list of nodes that cannot be read counts as empty. A completing job has its nodes completely.
    try:
        nodes = tuple(expand_hostlist(_given(line, "nodelist")))
    except HostlistError:
        nodes = ()
    told = _given(line, "alloctres") or _given(line, "tres")
    try:
        cpus = int(amount_of(told, "cpu"))
        if len(nodes) != 1 or not cpus or state == "COMPLETING":
            return RunningJob(nodes, record=line)
        return RunningJob(nodes, cpus, round(memory_mib(told)[0]), demands_of(told).gpus, line)
    except ValueError as error:
        raise line.error(f"TRES {error}") from None


def _of_forged(line: ConfLine) -> list[RunningJob]:
    """Return the job of a possibly forged record if it runs: its nodes are in use, but its part of them is unknown."""
    state = job_state(line.word("jobstate", "").split(","))
    return [RunningJob(_running(line, state).nodes)] if state in RUNNING else []


def _range_remarks(jobs: int) -> list[str]:
    return [f"jobs with a range of nodes, taken with the least number: {jobs}"] if jobs else []


def _cut_short_remarks(arrays: int) -> list[str]:
    fault = "arrays whose list of tasks is cut short, taken with the tasks that it shows"
    return [f"{fault}: {arrays}; SLURM_BITSTR_LEN=0 makes scontrol and squeue -o %i print all"] if arrays else []


def _given(line: ConfLine, key: str) -> str:
    # Return the value of a key, empty if the value stands for nothing.
    text = line.values.get(key, "").strip()
    return "" if text.upper() in NO_LIMIT else text


def _jobs(line: ConfLine, begun: Counter[str], request_of: Callable[[ConfLine], Request]) -> list[QueuedJob]:
    # Return one job, or the tasks of an array. Tasks above the limit of the array wait for other tasks.
    name = line.values["jobid"]
    request = request_of(line)
    het = _given(line, "hetjobid")
    one = QueuedJob(
        id=f"{het}+{_given(line, 'hetjoboffset') or 0}" if het else name,
        request=request,
        waits_for=waits_for(line),
        reservation=_given(line, "reservation"),
        together=het,
        limit_s=_limit_s(line),
    )
    array, tasks = _given(line, "arrayjobid"), _given(line, "arraytaskid")
    if not array or not tasks:
        return [one]
    try:
        numbers, limit = array_tasks(tasks)
    except ValueError as error:
        raise line.error(f"ArrayTaskId {error}") from None
    limit = line.whole("arraytaskthrottle") or limit
    room = max(limit - begun[array], 0) if limit else len(numbers)
    begun[array] += min(room, len(numbers))
    late = replace(one, waits_for=one.waits_for or TASK_LIMIT)
    return [replace(one if place < room else late, id=f"{array}_{task}") for place, task in enumerate(numbers)]


@dataclass(frozen=True, slots=True)
class PrintedId:
    """The id of a job as ``squeue`` prints it.

    Parameters
    ----------
    job
        The id.
    array, tasks
        Id of its array, and its task or tasks such as ``3-4%2``; empty if it belongs to no array.
    together
        Id of its heterogeneous job if it is a component; empty for other jobs.
    """

    job: str
    array: str = ""
    tasks: str = ""
    together: str = ""

    @classmethod
    def of(cls, text: str) -> "PrintedId":
        """Read ``7``, ``7_3``, ``7_[3-4%2]`` (maybe cut to the width of its column), or ``700+1``."""
        if array := re.fullmatch(r"([^_]+)_(\[[^\]]*\]?|\d+)", text):
            return cls(text, array[1], array[2])
        component = re.fullmatch(r"(\d+)\+\d+", text)
        return cls(text, together=component[1] if component else "")


def is_cut_short(tasks: str) -> bool:
    """Return whether a list of array tasks is cut short, by Slurm (with dots) or by the width of a column."""
    return "..." in tasks or (tasks.startswith("[") and not tasks.endswith("]"))


def array_tasks(text: str) -> tuple[list[int], int]:
    """Return the tasks in a text such as ``1-4,9-15:2%3``, and how many may run at once, 0 for any number.

    If the list is cut short, only the tasks that are certain are returned. Raises `ValueError` for an invalid text.
    """
    listed, _, limit = text.strip().strip("[]").partition("%")
    if "[" in text and "]" not in text and not limit:
        listed = _certain(listed)
    found: list[int] = []
    for part in listed.split(","):
        if part.strip() == "..." or (is_cut_short(text) and not part):
            continue
        match = _STEPS.fullmatch(part.strip())
        if match is None or (limit and not limit.isdigit()):
            raise ValueError(f"is {shown(text)}, must be tasks such as 1-4,7 or 0-99%10")
        first = int(match[1])
        last = int(match[2] or first)
        if last < first or len(found) + last - first > MOST_TASKS:
            raise ValueError(f"is {shown(text)}, must be rising ranges of at most {MOST_TASKS} tasks")
        found += range(first, last + 1, int(match[3] or 1) or 1)
    return found, int(limit or 0)


def _certain(listed: str) -> str:
    # Return the certain part of a list whose last number may lack digits. The complete number is not smaller, so a
    # range reaches at least the number that is shown.
    whole, comma, end = listed.rpartition(",")
    match = re.fullmatch(r"(\d+)-(\d*)", end, re.ASCII)
    if match is None:
        return whole
    is_range = match[2] and int(match[2]) >= int(match[1])
    return f"{whole}{comma}{end if is_range else match[1]}"


def waits_for(line: ConfLine) -> str:
    """Return Slurm's reason why a job may not start now, empty if it may."""
    if line.values.get("jobstate", "") in HELD:
        return line.values["jobstate"]
    reason = line.values.get("reason", "None").strip().strip("()") or "None"
    # Slurm prints this instead of Resources if too few nodes are up; scontrol prints _ for spaces.
    if reason.replace("_", " ").startswith("Nodes required for job are DOWN"):
        reason = "Resources"
    if "unfulfilled" in line.values.get("dependency", ""):
        return "Dependency"
    # Slurm may not have written the reason of a hold yet.
    is_held = re.fullmatch(r"0(?:\.0*)?", line.values.get("priority", "").strip()) or line.word("hold", "NO") == "YES"
    if is_held and reason in MAY_START:
        return HOLD
    if _given(line, "reservation") and reason == IN_RESERVATION:
        return ""
    return "" if reason in MAY_START else reason


def job_request(line: ConfLine) -> Request:
    """Return the request of the job of a record; it also names the demands that are not modelled.

    Raises `BadFileError`, which names the record, if a value cannot be read.
    """
    try:
        return _read_request(line)
    except BadFileError:
        raise
    except ValueError as error:
        raise line.error(str(error)) from None


def _read_request(line: ConfLine) -> Request:
    # Raises `ValueError`, without a place, for unreadable lists of nodes or resources and numbers out of range.
    demands = [*JOB_KEYS.not_modelled(line.values).values(), *licenses_of(_given(line, "licenses"))]
    amounts = {name: _given(line, key) for key, name in _TRES_KEYS.items()}
    for text in amounts.values():
        demands += demands_of(text).others
    least_text, _, most_text = line.values.get("numnodes", "1").partition("-")
    size = replace(line, values={"least": least_text, "most": most_text})
    nodes = max(size.whole("least", 1), 1)
    most = size.whole("most") or None
    tasks = max(line.whole("numtasks", 1), nodes)
    per_kind = _given(line, "ntaskspern:b:s:c").split(":")
    on_node = int(per_kind[0]) if per_kind[0].isdigit() else 0
    if len(per_kind) > 2 and per_kind[2].isdigit() and int(per_kind[2]):
        demands.append("--ntasks-per-socket")
    cores = max(line.whole("cpus/task", 1), 1)
    cores = max(cores, int(amount_of(amounts["task"], "cpu")))
    required = expand_hostlist(_given(line, "reqnodelist"))
    if required and len(required) < nodes:
        demands.append("--nodelist with fewer nodes than the job gets")
    if required:
        nodes = max(nodes, len(required))
        most = nodes
        tasks = max(tasks, nodes)
    of_node, of_task = _gpus(line, amounts, nodes, demands)
    cores, memory = _scaled(line, of_node, of_task, tasks // nodes if tasks % nodes == 0 else 0, cores, demands)
    spread = on_node or math.ceil(tasks / nodes)
    if line.whole("mincpusnode") > spread * cores:
        if tasks == nodes:
            cores = line.whole("mincpusnode")
        else:
            demands.append("--mincpus")
    share = (line.word("oversubscribe", "OK"), line.word("exclusive", "NO"))
    return Request(
        tasks=tasks,
        least_nodes=nodes,
        most_nodes=most,
        tasks_per_node=on_node or None,
        cores_per_task=cores,
        memory_per_node_mib=memory or _mebibytes(line, "minmemorynode"),
        memory_per_core_mib=_mebibytes(line, "minmemorycpu") or None,
        gpus_per_node=tuple(of_node.items()),
        gpus_per_task=tuple(of_task.items()),
        partition=_given(line, "partition") or None,
        constraint=_given(line, "features") or None,
        excluded=_given(line, "excnodelist"),
        required=_given(line, "reqnodelist"),
        is_exclusive=share[0] in ("NO", "EXCLUSIVE") or share[1] == "NODE",
        unmodelled=tuple(dict.fromkeys(demands)),
    )


def table_request(line: ConfLine) -> Request:
    """Return the request of a job in a table: whole nodes of its partition with the GPUs and features that it names."""
    asked = job_request(line)
    return replace(
        asked,
        tasks=None,
        most_nodes=asked.least_nodes,
        cores_per_task=0,
        memory_per_node_mib=asked.memory_per_node_mib or None,
        is_exclusive=True,
    )


def _gpus(
    line: ConfLine, amounts: Mapping[str, str], nodes: int, demands: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the GPUs per node and per task, by type; GPUs of the whole job are spread evenly over its nodes."""
    of_node = dict(demands_of(amounts["node"]).gpus)
    if not of_node:
        of_node = {kind: float(math.ceil(count / nodes)) for kind, count in demands_of(amounts["job"]).gpus}
    of_socket = demands_of(amounts["socket"]).gpus
    sockets = line.whole("socks/node") if _given(line, "socks/node").isdigit() else 0
    if of_socket and sockets:
        of_node = {kind: count * sockets for kind, count in of_socket}
    elif of_socket:
        demands.append("--gpus-per-socket")
    of_task = dict(demands_of(amounts["task"]).gpus)
    # Slurm may print the GPUs of the job as well as those per task; then only those per task count.
    return ({} if of_task else of_node), of_task


def _scaled(
    line: ConfLine,
    of_node: Mapping[str, float],
    of_task: Mapping[str, float],
    tasks_on_node: int,
    cores: int,
    demands: list[str],
) -> tuple[int, int]:
    """Return the cores per task, and the MiB of memory per node (or 0), that follow from the GPUs of the job."""
    per_gpu = {key: amount_of(_given(line, key), "gpu") for key in ("cpuspertres", "mempertres")}
    on_node, on_task = sum(of_node.values()), sum(of_task.values())
    if per_gpu["cpuspertres"]:
        if on_task:
            cores = max(cores, math.ceil(per_gpu["cpuspertres"] * on_task))
        elif on_node and tasks_on_node:
            cores = max(cores, math.ceil(per_gpu["cpuspertres"] * on_node / tasks_on_node))
        else:
            demands.append("--cpus-per-gpu")
    if not per_gpu["mempertres"]:
        return cores, 0
    if on_node:
        return cores, math.ceil(per_gpu["mempertres"] * on_node)
    if on_task and tasks_on_node:
        return cores, math.ceil(per_gpu["mempertres"] * on_task * tasks_on_node)
    demands.append("--mem-per-gpu")
    return cores, 0


def _mebibytes(line: ConfLine, key: str) -> int | None:
    # 0 on a node means all of its memory (sbatch(1), --mem); no value means no request.
    text = line.word(key, "")
    if not text or text in NO_LIMIT:
        return None
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise line.error(f"{key} is {shown(text)}, must be an amount such as 4000M or 16G")
    return round(float(match[1]) * 1024.0 ** ("KMGTP".find(match[2] or "M") - 1))


def _limit_s(line: ConfLine) -> float | None:
    # scontrol prints Partition_Limit, and squeue words such as NOT_SET, for a job that has the partition's limit.
    text = line.values.get("timelimit", "").strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    try:
        return duration_s(text, 60.0) if re.match(r"\d", text, re.ASCII) else None
    except ValueError:
        # A column may cut a long limit. A job with an unknown limit may still start.
        return None


_LISTED = re.compile(r"\s*(\S+)\s+(\d{1,18})(?:-(\d{1,18}))?\s*", re.ASCII)


@dataclass(slots=True)
class ListedJobs:
    """Jobs that are listed as ids and numbers of nodes; they get whole nodes.

    Parameters
    ----------
    most_nodes
        Largest number of nodes of a job.
    ranged
        Number of jobs that give a range of nodes; they get the smallest number.
    cut
        Number of arrays whose list of tasks is cut short.
    jobs
        The jobs by their ids.
    """

    most_nodes: int
    ranged: int = 0
    cut: int = 0
    jobs: dict[str, QueuedJob] = field(default_factory=dict)

    def remarks(self) -> list[str]:
        """Return a line about ranges of nodes, and one about lists of tasks that are cut short, if there are any."""
        return [*_range_remarks(self.ranged), *_cut_short_remarks(self.cut)]

    def add(self, text: str) -> None:
        """Add the jobs of a line ``ID NODES``. Raises `ValueError` for an invalid line or a repeated job.

        An id may name tasks of an array, as in ``7_[3-4%2]``, or a component of a heterogeneous job, as in ``700+1``.
        """
        match = _LISTED.fullmatch(text)
        least = int(match[2]) if match else 0
        most = int(match[3] or match[2]) if match else 0
        if match is None or not 1 <= least <= most <= self.most_nodes:
            raise ValueError(f"is {shown(text)}, must be the id of a job and its number of nodes")
        self.ranged += least < most
        request = Request.whole_nodes(least)
        name = PrintedId.of(match[1])
        limit = 0
        names = [name.job]
        if name.tasks:
            tasks, limit = array_tasks(name.tasks)
            self.cut += is_cut_short(name.tasks)
            names = [f"{name.array}_{task}" for task in tasks]
        for number, one in enumerate(names):
            if one in self.jobs:
                raise ValueError(f"job {shown(one)} is given twice")
            waits_for = TASK_LIMIT if limit and number >= limit else ""
            self.jobs[one] = QueuedJob(id=one, request=request, waits_for=waits_for, together=name.together)


def with_running(cluster: Cluster, running: Iterable[RunningJob]) -> tuple[Cluster, list[str]]:
    """Return the cluster with running jobs on nodes that its files list as idle, and remarks.

    Files such as ``slurm.conf`` do not say what is in use. If a job's amounts are unknown, its nodes are full.
    """
    idle = {node.name: node for node in cluster.nodes if node.use.is_idle}
    held: dict[str, ClusterNode] = {}
    full: set[str] = set()
    unplaced = 0
    for job in running:
        unplaced += not job.nodes
        for name in job.nodes:
            if name in idle:
                held[name] = _holding(held.get(name, idle[name]), job)
                full.update([] if job.cpus else [name])
    remarks = [f"running jobs whose nodes are not given: {unplaced}"] if unplaced else []
    if held:
        whole = f"; of these, taken as full, as the jobs' amounts are not given: {len(full)}" if full else ""
        told = f"nodes that the cluster's files list as idle, but running jobs use: {len(held)}"
        remarks.append(f"{told}{whole}")
    nodes = tuple(held.get(node.name, node) for node in cluster.nodes)
    return replace(cluster, nodes=nodes) if held else cluster, remarks


def _holding(node: ClusterNode, job: RunningJob) -> ClusterNode:
    """Return a node on which the amounts of a job are in use, or the whole node if they are unknown."""
    if not job.cpus:
        return replace(node, use=NodeUse(node.cores, node.memory_mib or 0, node.gpus))
    gpus = Counter(node.use.gpus)
    for kind, count in job.gpus:
        gpus[kind] += math.ceil(count)
    cores = node.use.cores + math.ceil(job.cpus / node.cpus_per_core)
    return replace(node, use=NodeUse(cores, node.use.memory_mib + job.memory_mib, gpus))


def startable(jobs: Iterable[QueuedJob]) -> tuple[list[QueuedJob], list[str]]:
    """Return the jobs that may start now, and a remark that counts the others by Slurm's reasons."""
    found = []
    late: Counter[str] = Counter()
    for job in jobs:
        if job.waits_for:
            # Slurm names nodes after a comma.
            late[job.waits_for.partition(",")[0]] += 1
        else:
            found.append(job)
    told = ", ".join(f"{brief(why)} {count}" for why, count in sorted(late.items()))
    return found, [f"jobs that may not start now, left out: {late.total()} ({told})"] if late else []
