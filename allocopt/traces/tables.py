"""Tables of jobs with a header: dumps of ``sacct``, CSV files and Parquet, with the columns in any order.

Events of a simulator of Slurm and the job log of Philly become rows of such a table, too.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.demands import gpu_parts, other_demands
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.request import Request
from allocopt.cluster.unserved import unmodelled
from allocopt.errors import AllocoptError, BadFileError, MissingPackageError
from allocopt.files.cells import LARGEST, duration_s, instant_s, memory_mib, resource_count
from allocopt.files.faults import bad_file, printable, shown
from allocopt.files.reading import lines_of, most_unpacked, read_bytes, read_text
from allocopt.traces.csv_columns import Columns, plain_name
from allocopt.traces.records import Damage, runnable_jobs
from allocopt.traces.workload import UNKNOWN_USER, Workload

RUN_USED = "no time limit, run time used"
NUMBERED = "part of an array without a number of its own, numbered"
NOT_ENDED = "not ended"
NO_SUBMIT = "submit time unknown"
_NO_NODES = "list of nodes not understood, left out"

# First words of states in which a job's run time is not yet known.
_UNENDED = frozenset(("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING"))

_DELIMITERS = ",;|\t"
# Columns of free text, in which Slurm prints a delimiter as it is; first those in which one is likely.
_FREE = ("constraints", "jobname", "comment", "admincomment", "systemcomment", "workdir")
# Columns that say what all nodes of a job have together.
_TOTALS = frozenset(("reqmem", "memreq", "alloctres", "tresalloc", "reqtres", "tresreq"))
# Roles that a request is made of beside nodes and processors.
_REQUESTED = (
    *("gpus", "gpu_share", "memory", "partition", "constraint", "tasks_per_node", "cores_per_task"),
    *("exclusive", "excluded", "required"),
)
_MOST_ROWS, _ROWS_AT_ONCE = 50_000_000, 1000  # of a Parquet file

_PLAIN = re.compile(r"\d{1,16}", re.ASCII)
_STEP = re.compile(r"\d+(?:[_+][^.\s]*)?\.\S+", re.ASCII)
_PART = re.compile(r"\d+[_+]\S+", re.ASCII)
_GPUS = re.compile(r"(?:gres[:/])?gpu(?::(?!\d+(?:[(=]|$))([^:=()]+))?(?:[:=](\d+))?(?:\(.*\))?", re.ASCII)


_Reader = Callable[[str, float], float]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    path: Path
    header: Sequence[str]  # names of the columns
    numbers: list[int]  # of the rows in the file, not in succession where a cell holds an end of a line
    cells: list[list[str]]  # of each row, as many as columns
    columns: Columns
    place: str = "line"  # what ``numbers`` count
    before: int = 0  # lines before the first row
    # By role the number of the column and its unit.
    places: dict[str, tuple[int, float]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", self.columns.find(self.path, self.header))

    def texts(self, role: str) -> list[str]:
        if role not in self.places:
            return [""] * len(self.cells)
        column = self.places[role][0]
        return [cells[column].strip() for cells in self.cells]

    def value(self, row: int, role: str, read: _Reader, otherwise: float | None = None) -> float:
        # A cell that cannot be read has the value ``otherwise``, or is a fault where there is none.
        column, unit = self.places.get(role, (-1, 1.0))
        try:
            return read("" if column < 0 else self.cells[row][column].strip(), unit)
        except ValueError as error:
            if otherwise is not None:
                return otherwise
            raise self.error(row, role, str(error)) from None

    def error(self, row: int, role: str, fault: str) -> BadFileError:
        name = self.header[self.places[role][0]].strip() if role in self.places else role
        return bad_file(self.path, f"{self.place} {self.numbers[row]}", f"{name} {fault}")

    def only(self, kept: Sequence[int]) -> "_Rows":
        return replace(self, numbers=[self.numbers[row] for row in kept], cells=[self.cells[row] for row in kept])

    def without_steps(self) -> "_Rows":
        # Steps are such as ``4711.batch``.
        jobs = self.texts("job")
        named = [job for job in jobs if job]
        if named and all(job.endswith(".0") and _PLAIN.fullmatch(job[:-2]) for job in named):
            # Numbers that went through a table of floats are no steps.
            column = self.places["job"][0]
            for cells in self.cells:
                cells[column] = cells[column].strip().removesuffix(".0")
            return self
        kept = self.only([row for row, job in enumerate(jobs) if not _STEP.fullmatch(job)])
        if not kept.cells:
            raise bad_file(self.path, f"all {len(named)} lines are those of job steps")
        return kept

    def job(self, row: int, size: str) -> tuple[float, ...]:
        # Start, run time, estimate, nodes and processors, of which one is the job's size.
        # A job without a start or an end has no run time: NaN becomes 0, and the job is dropped.
        if "run" in self.places:
            start, run = self.value(row, "start", instant_s, math.nan), self.value(row, "run", duration_s)
        else:
            start = self.value(row, "start", instant_s)
            run = self.value(row, "end", instant_s) - start
        nodes, processors = (
            self.value(row, role, partial(_counted, resource), None if role == size else 0.0)
            for role, resource in (("nodes", "node"), ("processors", "cpu"))
        )
        return start, run, self.value(row, "estimate", duration_s), nodes, processors

    def users(self) -> tuple[IntArray, list[str]]:
        # A number for every user, and the names of those whose users are none.
        users = self.texts("user")
        if all(_PLAIN.fullmatch(name) for name in users):
            return np.array([int(name) for name in users], dtype=np.int64), [""] * len(users)
        # Names of users become numbers in the order in which they come.
        known = {name: number for number, name in enumerate(dict.fromkeys(filter(None, users)))}
        numbers = np.array([known.get(name, UNKNOWN_USER) for name in users], dtype=np.int64)
        return numbers, [printable(name) for name in users]

    def ids(self) -> tuple[IntArray, list[str], BoolArray]:
        # A number of its own for every job, the names of those whose id is none, and which ids had a number in them.
        jobs = self.texts("job")
        first = {job: row for row, job in reversed(list(enumerate(jobs)))}
        plain = [_PLAIN.fullmatch(job) is not None for job in jobs]
        owned = np.array([plain[row] and first[job] == row and int(job) <= LARGEST for row, job in enumerate(jobs)])
        ids = np.array(self.numbers, dtype=np.int64) - self.before
        if owned.any():
            ids[owned] = [int(jobs[row]) for row in np.flatnonzero(owned).tolist()]
            ids[~owned] = ids[owned].max() + 1 + np.arange(int((~owned).sum()))
        numbered = ~owned & np.array([plain[row] or _PART.fullmatch(job) is not None for row, job in enumerate(jobs)])
        return ids, ["" if owned[row] else printable(job) for row, job in enumerate(jobs)], numbered

    def requests(self, nodes: FloatArray, processors: FloatArray) -> tuple[Any, dict[str, BoolArray]]:
        # What the jobs ask for, and which rows have what is not understood, by a reason.
        requests, bad = np.full(len(self.cells), None), np.zeros(len(self.cells), dtype=np.bool_)
        if not {"nodes", *_REQUESTED} & self.places.keys():
            return requests, {}
        known: dict[tuple[Any, ...], Request | str] = {}
        told, ignored = "", self._ignored()
        rows = zip(nodes.tolist(), processors.tolist(), *map(self.texts, _REQUESTED), strict=True)
        for row, key in enumerate(rows):
            if key not in known:
                try:
                    known[key] = self._request(key[0], key[1], dict(zip(_REQUESTED, key[2:], strict=True)))
                except ValueError as error:
                    known[key] = str(error)
            found = known[key]
            if isinstance(found, Request):
                requests[row] = found
            else:
                bad[row] = True
                told = told or f"{self.place} {self.numbers[row]}: {found}"
        return requests, ({f"request not understood ({told}), left out": bad} if told else {}) | ignored

    def _ignored(self) -> dict[str, BoolArray]:
        # Which rows ask for something that is not modelled, without which they are placed, by a reason.
        texts = self.texts("gpus")
        named = {text: other_demands(text) for text in dict.fromkeys(texts)}
        demands = dict.fromkeys(name for names in named.values() for name in names)
        return {
            f"{unmodelled([printable(name)])}, placed without it": np.array([name in named[text] for text in texts])
            for name in demands
        }

    def _request(self, nodes: float, processors: float, asked: dict[str, str]) -> Request:
        # A pod of Kubernetes is on one node, with a share of its cores.
        is_pod = self.places.get("processors", (0, 1.0))[1] < 1
        cores = processors if is_pod else resource_count(asked["cores_per_task"], "cpu") or 1.0
        tasks = 1 if is_pod else int(processors // cores) or None
        count = 1 if is_pod else int(nodes) or None
        tasks_per_node = int(resource_count(asked["tasks_per_node"], "task")) or None
        if "tasks_per_node" not in self.places and count and tasks and tasks % count == 0:
            # What a job was given is taken as spread evenly.
            tasks_per_node = tasks // count
        # GPUs by type, each of which counts as a share, and whether they are those of all nodes.
        share = resource_count(asked["gpu_share"], "gpu") * 1e-3 or 1.0
        gpus: tuple[tuple[str, float], ...] = ()
        if "gpu" in asked["gpus"]:
            found = [match for part in asked["gpus"].split(",") if (match := _GPUS.fullmatch(part.strip()))]
            if not found:
                fault = f"has GPUs {shown(asked['gpus'])}, must be a number, gpu:TYPE:NUMBER or gres/gpu=NUMBER"
                raise ValueError(fault)
            # Where types are told, the number of all stands beside them. Those of ``--gres`` are of each node.
            typed = [match for match in found if match[1]] or found
            gpus, is_total = tuple((match[1] or "", float(match[2] or 1)) for match in typed), "=" in asked["gpus"]
        else:
            amount = 0.0 if re.search("[=:]", asked["gpus"]) else resource_count(asked["gpus"], "gpu")
            gpus, is_total = (("", amount * share),) if amount else (), True
        per_task: tuple[tuple[str, float], ...] = ()
        if is_total and gpus and count is None and tasks and all(amount % tasks == 0 for _, amount in gpus):
            per_task, gpus = tuple((kind, amount / tasks) for kind, amount in gpus), ()
        elif is_total and gpus and count != 1:
            count = count or 1
            gpus = tuple((kind, float(math.ceil(amount / count))) for kind, amount in gpus)
        column, unit = self.places.get("memory", (0, 1.0))
        memory, kind = memory_mib(asked["memory"], unit)
        if not kind and count and plain_name(self.header[column]) in _TOTALS:
            memory /= count
        partition = asked["partition"].split(",")[0]
        return Request(
            tasks,
            count or 1,
            count,
            tasks_per_node,
            cores if tasks else 0.0,
            (math.ceil(memory) or None) if kind != "c" else None,
            (math.ceil(memory) or None) if kind == "c" else None,
            gpus,
            per_task,
            # Acme and Helios call the seconds of waiting a queue.
            None if re.fullmatch(r"[\d.]*", partition) else partition,
            asked["constraint"] or None,
            asked["excluded"],
            asked["required"],
            asked["exclusive"].lower() in ("yes", "true", "1") or not (tasks or gpus),
            gpu_parts(asked["gpus"]),
        )


def _workload_of(rows: _Rows, damage: Damage) -> Workload:
    rows = rows.without_steps()
    size = rows.columns.size(rows.places)
    if size == "nodes" and "processors" in rows.places and not any(rows.texts("nodes")):
        size = "processors"
    kept: list[int] = []
    jobs: list[tuple[float, ...]] = []
    faults: list[BadFileError] = []
    left_out = {NOT_ENDED: 0, NO_SUBMIT: 0}
    for row, state in enumerate(rows.texts("state")):
        try:
            submitted = rows.value(row, "submit", instant_s)
            if state.split(" ")[0].strip("+").upper() in _UNENDED:
                left_out[NOT_ENDED] += 1
            elif math.isnan(submitted):
                left_out[NO_SUBMIT] += 1
            else:
                jobs.append((submitted, *rows.job(row, size)))
                kept.append(row)
        except BadFileError as error:
            faults.append(error)
    damage.drop(len(faults), faults, left=len(kept))
    if not kept:
        fault = f"none of its {len(rows.cells)} jobs has been submitted and has ended"
        raise damage.first or bad_file(rows.path, fault)
    rows = rows.only(kept)
    submit, start, run, estimate, nodes, processors = np.array(jobs).T
    run, estimate = np.nan_to_num(run), np.nan_to_num(estimate)
    ids, names, numbered = rows.ids()
    users, user_names = rows.users()
    # Slurm writes sentences such as ``None assigned``.
    listed = ["" if " " in text else text for text in rows.texts("node_list")]
    lists = dict.fromkeys(listed, True)
    for text in lists:
        try:
            expand_hostlist(text)
        except AllocoptError:
            lists[text] = False
    requests, not_understood = rows.requests(nodes, processors)
    made = runnable_jobs(
        rows.path,
        rows.error,
        damage,
        {
            RUN_USED: estimate <= 0,
            NUMBERED: numbered,
            _NO_NODES: np.array([not lists[text] for text in listed]),
            **not_understood,
        },
        ids=ids,
        submit=submit - submit.min(),
        run=run,
        processors=np.ceil((nodes if size == "nodes" else processors).round(6)).astype(np.int64),
        estimate=np.where(estimate > 0, estimate, run),
        users=users,
        names=np.array(names, dtype=np.object_),
        user_names=np.array(user_names, dtype=np.object_),
        accounts=np.array([printable(text) for text in rows.texts("account")], dtype=np.object_),
        requests=requests,
        recorded_start=np.where(start >= submit, start, np.nan) - submit.min(),
        recorded_nodes=np.array([text if lists[text] else "" for text in listed], dtype=np.object_),
    )
    made = made.subset(slice(None), float(made.submit.min()))
    return replace(made, dropped=(*(count for count in left_out.items() if count[1]), *made.dropped))


def read_csv_workload(path: Path, damage: Damage, columns: Columns | None = None) -> Workload:
    """Read the jobs of a table: a dump of ``sacct``, a CSV file, plain or compressed (``.gz``), or Parquet.

    A job's size is its number of nodes if a column has it, or else that of processors; its run time that column, or
    else end minus start; its estimate the time limit, or else the run time. Times count from the first submission.
    Steps are skipped; jobs that have not ended, or were never submitted or started, are dropped and counted. Jobs whose
    id is no number get that of their row, and keep the text as their name; in a table of numbers tasks of arrays,
    components, and jobs with the number of an earlier line get numbers behind all others. What columns tell of nodes,
    cores, memory, GPUs and partitions becomes the requests.

    Raises `BadFileError` if the file cannot be read, a column that is needed is not there, or no job is left; it names
    the line and the column; `MissingPackageError` where Parquet needs pyarrow.
    """
    columns = columns or Columns()
    if path.name.endswith(".parquet"):
        return _workload_of(_parquet_rows(path, columns), damage)
    lines = lines_of(read_text(path))
    if not lines:
        raise bad_file(path, "is empty, must begin with the names of its columns")
    rule = lines[1].rstrip() if len(lines) > 1 else ""
    of_width = "-" in rule and not rule.strip("- ")
    if of_width:
        # A table for eyes, as ``sacct`` prints it: the second line rules its columns.
        spans = [match.span() for match in re.finditer("-+", lines[1])]
        texts = [[line[begin:end].strip() for begin, end in spans] for line in lines]
        numbers = [number for number, line in enumerate(lines, 1) if number > 2 and line.strip()]
        rows = _Rows(path, texts[0], numbers, [texts[number - 1] for number in numbers], columns, before=2)
    else:
        rows = _rows_of_cells(path, lines, columns, damage)
    if not rows.cells:
        raise bad_file(path, "holds no jobs")
    return _workload_of(rows, damage)


def _rows_of_cells(path: Path, lines: list[str], columns: Columns, damage: Damage) -> _Rows:
    delimiter = columns.delimiter or max(_DELIMITERS, key=lines[0].count)
    # Slurm does not quote.
    is_slurm = delimiter == "|"
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_slurm else csv.QUOTE_MINIMAL)
    numbers: list[int] = []
    rows: list[list[str]] = []
    faults: list[BadFileError] = []
    try:
        header = next(reader)
        while header and not header[-1].strip():
            # ``sacct -p`` ends every line with a delimiter, and some sites cut that of the rows.
            header.pop()
        places = columns.find(path, header)
        for cells in reader:
            if not any(map(str.strip, cells)):
                continue
            while len(cells) > len(header) and not cells[-1].strip():
                cells.pop()
            if is_slurm and len(cells) > len(header):
                cells = _aligned(cells, header, places)
            if len(cells) == len(header):
                numbers.append(reader.line_num)
                rows.append(cells)
            else:
                fault = f"has {len(cells)} cells, line 1 names {len(header)} columns"
                faults.append(bad_file(path, f"line {reader.line_num}", fault))
    except csv.Error as error:
        raise bad_file(path, f"line {reader.line_num}", f"is not a row of cells: {error}") from None
    damage.drop(len(faults), faults, left=len(rows))
    return _Rows(path, header, numbers, rows, columns, before=1)


def _aligned(cells: list[str], header: list[str], places: dict[str, tuple[int, float]]) -> list[str]:
    # The cells of a row with too many, as free texts hold delimiters; as they are if they fit no way.
    names = [plain_name(name) for name in header]
    free = [names.index(name) for name in _FREE if name in names]
    over = len(cells) - len(header)
    shares = [{column: over} for column in free]
    shares += [{one: most, two: over - most} for one, two in combinations(free, 2) for most in range(over - 1, 0, -1)]
    readers: dict[str, Callable[[str, float], float]] = {
        **dict.fromkeys(("submit", "start", "end"), instant_s),
        **dict.fromkeys(("run", "estimate"), duration_s),
        **dict.fromkeys(("nodes", "processors"), partial(_counted, "node")),
        "job": _job_number,
    }
    for share in shares:
        rest = iter(cells)
        joined = ["|".join(next(rest) for _ in range(1 + share.get(column, 0))) for column in range(len(header))]
        try:
            for role in readers.keys() & places.keys():
                readers[role](joined[places[role][0]].strip(), 1.0)
        except ValueError:
            continue
        # Elapsed and ElapsedRaw stand side by side.
        if not any(":" in cell for name, cell in zip(names, joined, strict=True) if name.endswith("raw")):
            return joined
    return cells


def _counted(resource: str, text: str, unit: float) -> float:
    return resource_count(text, resource) * unit


def _job_number(text: str, _: float) -> float:
    if not (_PLAIN.fullmatch(text) or _PART.fullmatch(text) or _STEP.fullmatch(text)):
        raise ValueError("is no number of a job")
    return 0.0


def _parquet_rows(path: Path, columns: Columns) -> _Rows:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError("Parquet files need pyarrow: pip install 'allocopt[parquet]'") from None

    data = read_bytes(path)
    unpacked, most = 0, most_unpacked(len(data))

    def texts(column: Any) -> list[str]:
        nonlocal unpacked
        # Lists and the like have no text of their own.
        with suppress(arrow.ArrowException):
            column = column.cast(arrow.string())
        unpacked += column.nbytes
        if unpacked > most:
            raise ValueError(f"it has more than {most} bytes when it is decompressed, the most that are read")
        return ["" if value is None else str(value) for value in column.to_pylist()]

    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        if file.metadata.num_rows > _MOST_ROWS:
            raise ValueError(f"it has {file.metadata.num_rows} rows, at most {_MOST_ROWS} are read")
        cells: list[list[str]] = []
        names = file.schema_arrow.names
        for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
            cells += map(list, zip(*map(texts, batch.columns), strict=True))
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise bad_file(path, f"cannot be read as Parquet: {[*str(error).splitlines(), ''][0]}") from None
    if not cells:
        raise bad_file(path, "holds no jobs")
    return _Rows(path, list(map(str, names)), list(range(1, len(cells) + 1)), cells, columns, "row")


_INTO_LIMIT, _BELOW_A_SECOND = "no run time, time limit used", "run time 0, 1 s used"

# Options, short and long, and the columns that they become.
_OPTIONS = {
    "J": "job", "job-name": "job", "uid": "user", "A": "account", "account": "account", "N": "nodes", "nodes": "nodes",
    "p": "partition",
    "partition": "partition", "C": "constraint", "constraint": "constraint", "gres": "gres",
    "ntasks-per-node": "ntasks_per_node", "c": "cpus_per_task", "cpus-per-task": "cpus_per_task",
    "x": "exclude", "exclude": "exclude", "w": "required", "nodelist": "required",
    "n": "tasks", "ntasks": "tasks", "t": "limit", "time": "limit",
}  # fmt: skip
_EVENT = ("submit", "run", "estimate", "processors", "memory", "exclusive", *dict.fromkeys(_OPTIONS.values()))
_OPTION = re.compile(r"--([\w-]+)(?:=(\S*))?|-([A-Za-z][\w-]*)\s+(?!-[A-Za-z-])(\S+)")


def read_events(path: Path, damage: Damage) -> Workload:
    """Read the events of the Slurm simulator of UB CCR: a line per submission with the options of ``sbatch``.

    ``-dt 49 -e submit_batch_job | -J job2 -sim-walltime 1201 -t 00:30:00 -n 12 -p normal job.sh``;
    https://github.com/ubccr-slurm-simulator/slurm_simulator. A job's processors are its tasks times the cores of each.
    A negative ``-sim-walltime`` is a job that runs into its limit. Raises `BadFileError` if the file cannot be read, or
    no job is left.
    """
    rows: dict[int, tuple[list[str], str]] = {}
    faults: list[BadFileError] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        event, _, options = line.partition("|")
        words = event.split()
        if words and words[0][0] != "#" and words[3:] in ([], ["submit_batch_job"]):
            try:
                if words[::2] != ["-dt", "-e"]:
                    raise ValueError(f"begins with {shown(' '.join(words))}, must be -dt SECONDS -e submit_batch_job")
                found = _OPTION.finditer(options)
                asked = {
                    _OPTIONS.get(match[1] or match[3], match[1] or match[3]): match[2] or match[4] or ""
                    for match in found
                }
                if "sim-walltime" not in asked:
                    raise ValueError("has no -sim-walltime")
                run_s, limit_s = duration_s(asked["sim-walltime"]), duration_s(asked.get("limit", ""), 60.0)
                repair = _INTO_LIMIT if run_s < 0 else "" if run_s else _BELOW_A_SECOND
                run_s = limit_s if run_s < 0 else run_s or 1.0
                tasks, nodes, of_node, of_task = (
                    int(resource_count(asked.get(name, ""), ""))
                    for name in ("tasks", "nodes", "ntasks_per_node", "cpus_per_task")
                )
                cores = (tasks or (nodes or 1) * (of_node or 1)) * (of_task or 1)
                memory = asked.get("mem") or (f"{asked['mem-per-cpu']}c" if "mem-per-cpu" in asked else "")
                # Nodes of ``--exclusive=user`` are closed to the others, too.
                alone = "yes" if "exclusive" in asked else ""
                row = [words[1], str(run_s), str(limit_s), str(cores), memory, alone]
                rows[number] = row + [asked.get(column, "") for column in _EVENT[6:]], repair
            except ValueError as error:
                faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(rows))
    if not rows:
        raise bad_file(path, "holds no jobs")
    cells, columns = [row for row, _ in rows.values()], Columns({"processors": "processors"})
    made = _workload_of(_Rows(path, _EVENT, list(rows), cells, columns), damage)
    repairs = Counter(repair for _, repair in rows.values() if repair)
    return replace(made, repaired=(*repairs.items(), *made.repaired))


_PHILLY = ("jobid", "user", "vc", "status", "submitted", "start", "end", "nodes", "gpus", "nodelist")


def read_philly(path: Path, jobs: list[Any], damage: Damage) -> Workload:
    """Return the jobs of a parsed log of Philly, from the start of a first attempt to the end of the last."""
    rows: dict[int, list[str]] = {}
    faults: list[BadFileError] = []
    for number, job in enumerate(jobs):
        try:
            attempts = job["attempts"] or [{}]
            first, detail = attempts[0], attempts[0].get("detail", [])
            texts = [job["jobid"], *(job.get(key) for key in _PHILLY[1:4]), job["submitted_time"]]
            texts += [first.get("start_time"), attempts[-1].get("end_time"), len(detail)]
            texts += [sum(len(one["gpus"]) for one in detail), ",".join(one["ip"] for one in detail)]
            rows[number] = [str(text or "") for text in texts]
        except (KeyError, TypeError, AttributeError):
            fault = "is no job of Philly, must have jobid, submitted_time, attempts"
            faults.append(bad_file(path, f"job {number}", fault))
    damage.drop(len(faults), faults, left=len(rows))
    return _workload_of(_Rows(path, _PHILLY, list(rows), list(rows.values()), Columns(), "job", -1), damage)
