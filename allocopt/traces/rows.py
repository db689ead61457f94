"""Rows of a table with named columns, and the jobs in them."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from allocopt.cluster.request import Request
from allocopt.cluster.tres import Demands, demands_of, is_nothing, licenses_of, reservation_of
from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, memory_mib, resource_amount
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import OF_CORE, OF_JOB, OF_NODE, OF_TASK, Asked
from allocopt.traces.components import COMPONENT, component_id
from allocopt.traces.csv_columns import OF_GPU, OF_SOCKET, Column, Columns, Dialect, plain_name
from allocopt.traces.dependencies import preceding_job
from allocopt.traces.jobs import PLAIN_NUMBER, JobRecord, has_ended, tasks_listed, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.tres_numbers import named_resources
from allocopt.traces.workload import Workload

# Roles that make up a request, in addition to nodes and processors.
_REQUESTED = (
    *(
        "gpus",
        "gpu_share",
        "gpu_type",
        "memory",
        "partition",
        "constraint",
        "tasks",
        "tasks_per_node",
        "cores_per_task",
    ),
    *("sockets", "exclusive", "excluded", "required"),
)
STEP = re.compile(r"\d+(?:[_+][^.\s]*)?\.(?:batch|extern|interactive|\d+(?:\.\S*)?|\S*TBD\S*)", re.ASCII)
_LIST = re.compile(r"[\[(].*[\])]", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SLOTS = re.compile(r"(?:\d+\*)?([^:*\s]+)")  # of one host, as LSF lists them

# By column name: a function that lists those demands in a cell that a job request cannot represent (licences,
# burst buffers, reservations).
_NAMED: Mapping[str, Callable[[str], Sequence[str]]] = MappingProxyType(
    {
        "licenses": licenses_of,
        "burstbuffer": lambda text: [] if is_nothing(text) else ["a burst buffer"],
        **dict.fromkeys(("reservation", "resvname", "idresv"), reservation_of),
    }
)
# Columns of Slurm in which memory of 0 means all memory of a node, as in ``--mem=0``.
_MEMORY_OF_SLURM = frozenset(("reqmem", "minmemory"))

SUSPENDED = "suspended for a time, which the run time does not count"
NOT_UNDERSTOOD = "something that is not understood"

_Reader = Callable[[str, float], float]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a table.

    Parameters
    ----------
    header
        Names of the columns.
    numbers
        Numbers of the rows in the file; numbers are skipped if a cell holds a line break.
    cells
        Cells of each row, one per column.
    place, before
        Unit of ``numbers``, such as lines, and how many of these come before the first row.
    """

    path: Path
    header: Sequence[str]
    numbers: list[int]
    cells: list[list[str]]
    columns: Columns
    place: str = "line"
    before: int = 0
    found: Mapping[str, Column] = field(init=False)
    demands: Sequence[tuple[Column, str]] = field(init=False)
    dialect: Dialect = field(init=False)

    def __post_init__(self) -> None:
        found = self.columns.find(self.path, self.header)
        if {"nodes", "processors"} <= found.keys():
            column = found["nodes"].number
            # If the column of nodes is empty in all rows, processors are the size.
            if not any(cells[column].strip() for cells in self.cells):
                del found["nodes"]
        self._check_distinct(found)
        object.__setattr__(self, "found", found)
        object.__setattr__(self, "demands", self.columns.demands(self.header, found))
        object.__setattr__(self, "dialect", self.columns.dialect(self.header))

    def _check_distinct(self, found: Mapping[str, Column]) -> None:
        # ``sacct -o`` may name a column twice. If the two differ, it is unknown which one is valid.
        plain = [plain_name(name) for name in self.header]
        for column in found.values():
            for other in range(column.number + 1, len(plain)):
                is_twin = plain[other] == plain[column.number]
                if is_twin and any(cells[other].strip() != cells[column.number].strip() for cells in self.cells):
                    fault = f"has two columns {shown(self.header[other].strip())} that differ; rename or remove one"
                    raise bad_file(self.path, f"{self.place} {max(self.before, 1)}", fault)

    def workload(self, damage: Damage) -> Workload:
        """Return the jobs of the rows; raise `BadFileError` if none is left."""
        rows = self._without_steps()
        remarks = named_resources(rows.header, rows.cells, rows.columns.tres)
        asked = _Requests(rows)
        records: list[JobRecord] = []
        faults: list[BadFileError] = []
        for row in range(len(rows.cells)):
            try:
                record = rows._record(row, asked)
                told = remarks.get(row, ())
                records.append(replace(record, remarks=(*record.remarks, *told)) if told else record)
            except BadFileError as error:
                faults.append(error)
        damage.drop(len(faults), faults, left=len(records))
        names = {role: rows.header[column.number].strip() for role, column in rows.found.items()}
        return workload_of(rows.path, records, damage, columns=names, ignored=rows.columns.ignored)

    def text(self, row: int, role: str) -> str:
        """Return the cell of a role; empty if the table has no column for it."""
        return self.cells[row][self.found[role].number].strip() if role in self.found else ""

    def value(self, row: int, role: str, read: _Reader, otherwise: float | None = None) -> float:
        """Read a cell; if that fails, return ``otherwise``, or raise `BadFileError` if it is None."""
        unit = self.found[role].unit if role in self.found else 1.0
        try:
            return read(self.text(row, role), unit)
        except ValueError as error:
            if otherwise is not None:
                return otherwise
            name = self.header[self.found[role].number].strip() if role in self.found else role
            raise bad_file(self.path, f"{self.place} {self.numbers[row]}", f"{name} {error}") from None

    def _without_steps(self) -> "Rows":
        # Job steps have ids such as ``4711.batch``.
        jobs = [self.text(row, "job") for row in range(len(self.cells))]
        named = [job for job in jobs if job]
        if named and all(job.endswith(".0") and PLAIN_NUMBER.fullmatch(job[:-2]) for job in named):
            # Ids such as 4711.0 in all rows come from a table of floats and are not steps.
            column = self.found["job"].number
            for cells in self.cells:
                cells[column] = cells[column].strip().removesuffix(".0")
            return self
        if not self.dialect.has_steps:
            return self
        kept = [row for row, job in enumerate(jobs) if not STEP.fullmatch(job)]
        if not kept:
            raise bad_file(self.path, f"all {len(named)} lines are job steps")
        return replace(self, numbers=[self.numbers[row] for row in kept], cells=[self.cells[row] for row in kept])

    def _record(self, row: int, asked: "_Requests") -> JobRecord:
        size = self.columns.size(self.found)
        submit = self.value(row, "submit", instant_s)
        state = self.text(row, "state")
        state = self.dialect.states.get(state, state)
        # A database writes 0 for a time in the future.
        start, end = (
            math.nan if instant == 0 < submit else instant
            for instant in (self.value(row, role, instant_s, math.nan) for role in ("start", "end"))
        )
        suspended = self.value(row, "suspended", duration_s, 0.0)
        suspended = suspended if suspended > 0 else 0.0
        if "run" in self.found:
            run = self.value(row, "run", duration_s, None if has_ended(state, None, 1.0) else math.nan)
        else:
            # As in ``sacct``, the run time excludes the time for which a job was suspended.
            run = self.value(row, "end", instant_s) - start - suspended if not math.isnan(end) else math.nan
        is_waiting = "start" in self.found and math.isnan(start) and not run > 0
        is_over = has_ended(state, end if "end" in self.found else None, run)
        # Ignore a malformed size if the job has not ended: the job is dropped anyway.
        needed = None if is_over and not is_waiting else 0.0
        nodes, processors = (
            self.value(row, role, partial(_counted, resource), needed if role == size else 0.0)
            for role, resource in (("nodes", "node"), ("processors", "cpu"))
        )
        record = JobRecord(
            place=f"{self.place} {self.numbers[row]}",
            number=self.numbers[row] - self.before,
            job=self._job(row),
            component=self._component(row),
            submit=submit,
            size=0.0,
            start=start,
            run=math.nan if is_waiting else run,
            estimate=self.value(row, "estimate", duration_s),
            is_over=is_over,
            user=self.text(row, "user"),
            account=self.text(row, "account"),
            node_list=node_list_of(self.text(row, "node_list")),
            jobs=self._jobs(row),
            remarks=(SUSPENDED,) if suspended else (),
        )
        return asked.complete(row, nodes, processors, record)

    def _job(self, row: int) -> str:
        job, process = self.text(row, "job"), self.text(row, "process")
        if not self.dialect.has_steps:
            # The first job of an HTCondor cluster has the cluster's number.
            job = (f"{job}.{process}" if process else job).removesuffix(".0")
        return job

    def _jobs(self, row: int) -> int:
        # One row represents all tasks of an array that have not started.
        tasks = re.search(r"_(\[.*)", self.text(row, "job"))
        return tasks_listed(tasks[1] if tasks else self.text(row, "array_tasks"))

    def _component(self, row: int) -> str:
        shown = self.text(row, "component")
        if COMPONENT.fullmatch(shown):
            return shown
        return component_id(self.text(row, "component_of"), self.text(row, "component_number"))


def node_list_of(text: str) -> str:
    """Return a cell as a hostlist; it may be Slurm's, a list of Python or NumPy, or LSF's ``16*n1:16*n2``."""
    if _LIST.fullmatch(text) and not re.match(r"\[[\d,-]+\][^,\]]", text):
        return ",".join(re.findall(r"[^\s,'\"]+", text[1:-1]))
    if ":" in text and "[" not in text:
        return ",".join(dict.fromkeys(_SLOTS.findall(text)))
    return text


def _counted(resource: str, text: str, unit: float) -> float:
    if _LIST.fullmatch(text):
        way = f"name the column that has the number: --columns {resource}s=NAME"
        raise ValueError(f"is the list {shown(text)}, must be a number; {way.replace('cpus', 'processors')}")
    return resource_amount(text, resource, unit)


class _Requests:
    """Adds requests to the records of rows; rows with equal demands share one request."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        total = rows.found.get("processors", Column(0, 1.0))
        is_plain = (total.unit, total.of) == (1.0, "")
        self._is_asked = bool({"nodes", *_REQUESTED} & rows.found.keys() or rows.demands) or not is_plain
        self._known: dict[tuple[object, ...], _Found | str] = {}
        self._first_fault = ""

    def complete(self, row: int, nodes: float, processors: float, record: JobRecord) -> JobRecord:
        """Return a record with its size, request, preceding job and demands."""
        rows = self._rows
        cells = [rows.cells[row][column.number] for column, _ in rows.demands]
        key = (nodes, processors, *(rows.text(row, role) for role in _REQUESTED), *cells)
        if key not in self._known:
            try:
                self._known[key] = self._find(row, nodes, processors)
            except ValueError as error:
                self._known[key] = str(error)
        found = self._known[key]
        remarks = record.remarks
        if isinstance(found, str):
            self._first_fault = self._first_fault or f"{record.place}: {found}"
            remarks = (*remarks, f"request not understood ({self._first_fault}), run on whole nodes only")
            found = _Found(processors, Request(partition=self._partition(row) or None, unmodelled=(NOT_UNDERSTOOD,)))
        after, odd = preceding_job(rows.text(row, "after"))
        return replace(
            record,
            size=nodes if rows.columns.size(rows.found) == "nodes" else found.processors,
            request=found.request,
            asks_for=found.asks_for,
            after=after,
            remarks=(*remarks, odd) if odd else remarks,
        )

    def _find(self, row: int, nodes: float, processors: float) -> "_Found":
        if not self._is_asked:
            return _Found(processors, None)
        gpus, gpus_of, names = self._gpus(row)
        tasks = self._amount(row, "tasks") * (nodes if self._of("tasks") == OF_NODE else 1.0)
        sockets = self._amount(row, "sockets") * (nodes if self._of("sockets") == OF_NODE else 1.0)
        if gpus_of == OF_SOCKET:
            if not sockets:
                names.add("GPUs per socket")
            gpus, gpus_of = _times(gpus, sockets), OF_JOB
        of_gpus = {OF_NODE: nodes, OF_TASK: tasks}.get(gpus_of, 1.0)
        every_gpu = sum(amount for _, amount in gpus) * of_gpus
        per = {OF_NODE: nodes, OF_TASK: tasks, OF_GPU: every_gpu, OF_SOCKET: sockets}
        of, unit = self._of("processors"), self._rows.found.get("processors", Column(0, 1.0)).unit
        cores = processors if of == OF_TASK else self._amount(row, "cores_per_task")
        total = processors * per.get(of, 1.0)
        memory, memory_of = self._memory(row, every_gpu)
        asked = Asked(
            nodes=nodes,
            processors=total,
            tasks=tasks,
            tasks_per_node=self._amount(row, "tasks_per_node"),
            cores_per_task=cores,
            is_spread="tasks_per_node" not in self._rows.found,
            is_share=(unit < 1 or self._rows.dialect.are_pods) and not of and not tasks and nodes <= 1,
            gpus=gpus,
            gpus_of=gpus_of,
            memory_mib=memory,
            memory_of=memory_of,
            is_all_memory=self._is_all_memory(row, memory),
            partition=self._partition(row),
            constraint=self._word(row, "constraint").strip("\"'"),
            excluded=self._word(row, "excluded"),
            required=self._word(row, "required"),
            is_exclusive=self._word(row, "exclusive").lower() in ("yes", "true", "1", "exclusive", "user"),
        )
        return _Found(total, asked.request(), tuple(sorted({*names, *asked.not_modelled()})))

    def _of(self, role: str) -> str:
        return self._rows.found[role].of if role in self._rows.found else ""

    def _amount(self, row: int, role: str) -> float:
        unit = self._rows.found[role].unit if role in self._rows.found else 1.0
        return resource_amount(self._rows.text(row, role), role, unit)

    def _word(self, row: int, role: str) -> str:
        text = self._rows.text(row, role)
        return "" if text.lower() in ("(null)", "none", "null", "n/a", "nan") else text

    def _partition(self, row: int) -> str:
        partition = self._word(row, "partition")
        # Acme and Helios have a column ``queue`` with seconds of waiting.
        return "" if re.fullmatch(r"[\d.]*", partition) else partition

    def _is_all_memory(self, row: int, memory: float) -> bool:
        if memory or "memory" not in self._rows.found or not self._word(row, "memory"):
            return False
        name = plain_name(self._rows.header[self._rows.found["memory"].number])
        return name in _MEMORY_OF_SLURM or (name == "memreq" and bool(self._rows.dialect.states))

    def _memory(self, row: int, gpus: float) -> tuple[float, str]:
        column = self._rows.found.get("memory", Column(0, 1.0))
        memory, kind = memory_mib(self._rows.text(row, "memory"), column.unit)
        if kind:
            return memory, OF_CORE if kind == "c" else OF_NODE
        if column.of == OF_GPU:
            return memory * gpus, OF_JOB
        return memory, column.of or OF_NODE

    def _gpus(self, row: int) -> tuple[tuple[tuple[str, float], ...], str, set[str]]:
        # GPUs by type, the unit that they refer to, and the names of other demands.
        gpus: tuple[tuple[str, float], ...] = ()
        gpus_of = OF_JOB
        names: set[str] = set()
        for column, name in self._rows.demands:
            text = self._rows.cells[row][column.number].strip()
            if name in _NAMED:
                names.update(_NAMED[name](text))
                continue
            is_number = _NUMBER.fullmatch(text) is not None
            held = Demands(_plain_gpus(text, column.unit)) if is_number else demands_of(text)
            names.update(held.others)
            if held.gpus and not gpus:
                gpus = held.gpus
                # GPUs of ``--gres`` are per node.
                gpus_of = column.of or (OF_JOB if is_number or "=" in text else OF_NODE)
        share = self._amount(row, "gpu_share") or 1.0
        kind = self._word(row, "gpu_type")
        return tuple((one or kind, amount * share) for one, amount in gpus), gpus_of, names


class _Found(NamedTuple):
    processors: float  # of the whole job
    request: Request | None
    asks_for: tuple[str, ...] = ()


def _plain_gpus(text: str, unit: float) -> tuple[tuple[str, float], ...]:
    amount = resource_amount(text, "gpu", unit)
    return (("", amount),) if amount else ()


def _times(amounts: tuple[tuple[str, float], ...], factor: float) -> tuple[tuple[str, float], ...]:
    return tuple((kind, amount * factor) for kind, amount in amounts)
