"""The columns of a table of jobs: found by their names, or by a mapping."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from allocopt.errors import UsageError
from allocopt.files.cells import UNITS_S
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_toml
from allocopt.traces.asked import OF_CORE, OF_JOB, OF_NODE, OF_TASK

OF_GPU, OF_SOCKET = "gpu", "socket"

# Roles of columns, with the known names of each in lower case, preferred names first. Sources: Slurm's accounting,
# commands and database; LSF's bjobs; HTCondor's tables; published traces (NREL, Acme, Helios, Philly, Lassen, openb,
# PM100, F-DATA, Frontier, Aurora); our own schedule files.
_TRES = ("alloctres", "tres_alloc", "tresallocstr", "reqtres", "tres_req", "tresreqstr")
_ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "job": (
            "jobidraw", "jobid", "job_id", "job_number", "id_job", "jid", "clusterid", "id", "job", "allocation_id",
            "instance_sn", "name", "job_name",
        ),
        "component": ("jobid", "job_id"),
        "component_of": ("het_job_id", "pack_job_id"),
        "component_number": ("het_job_offset", "pack_job_offset"),
        "process": ("procid",),
        "submit": (
            "submit", "submit_time", "submittime", "submitted", "time_submit", "time_submission", "submission_time",
            "arrival", "arrival_time", "job_submit_time", "creation_time", "adt", "qdate", "queued_timestamp",
        ),
        "start": (
            "start", "start_time", "starttime", "started", "time_start", "begin_time", "scheduled_time",
            "starting_time", "sdt", "jobcurrentstartdate", "jobstartdate", "start_timestamp",
        ),
        "end": (
            "end", "end_time", "endtime", "ended", "finish_time", "time_end", "deletion_time", "edt", "completiondate",
            "end_timestamp",
        ),
        "run": (
            "elapsedraw", "elapsed", "run", "run_time", "runtime", "run_s", "duration", "wallclock_used",
            "execution_time", "runtime_seconds", "remotewallclocktime",
        ),
        "suspended": ("suspended", "time_suspended"),
        "estimate": (
            "timelimitraw", "timelimit", "time_limit", "estimate", "estimate_s", "wallclock_req", "walltime",
            "requested_time", "req_walltime", "elpl", "runtimelimit", "walltime_seconds",
        ),
        "nodes": (
            "allocnodes", "nnodes", "nodes_alloc", "num_nodes_alloc", "nodes_used", "nnuma", "nexec_host", "reqnodes",
            "nodes_req", "num_nodes_req", "nodes_requested", "nodes_required", "nnumr", "num_nodes", "n_nodes",
            "node_count", "node_num", "nodes", *_TRES,
        ),
        "processors": (
            "alloccpus", "ncpus", "num_cores_alloc", "reqcpus", "processors", "processors_req", "num_procs", "n_cpus",
            "cpus", "cores", "cpu_num", "num_processors", "cores_requested", "cnumr", "nalloc_slot", "slots",
            "requestcpus", "requested_number_of_resources", "cpu_milli", "cpu_request", *_TRES, "cpus_req",
            "num_cores_req",
        ),
        "user": (
            "uid", "id_user", "user", "user_id", "username", "user_name", "usr", "owner", "hashed_user_id",
            "username_genid",
        ),
        "account": ("account", "accountname", "project"),
        "state": ("state", "job_state", "state_current", "stat", "status", "jobstatus", "st"),
        "node_list": ("nodelist", "node_list", "recorded_nodes", "exec_host", "nodes"),
        "gpus": (
            "gpu_num", "num_gpu", "num_gpus", "num_gpus_alloc", "n_gpus", "gpus", "gpus_req", "num_gpus_req",
            "requestgpus", "gpu_request", "tres_per_task", "tres_per_node", "tres_per_job", "gres", "allocgres",
            "reqgres", *_TRES, "gres_used",
        ),
        "gpu_share": ("gpu_milli",),
        "gpu_type": ("gpu_type", "gpu_model"),
        "memory": (
            "reqmem", "memory_mib", "memory", "mem", "mem_req", "mem_per_pod_gb", "requestmemory", "memory_request",
            "mem_per_cpu", "min_memory",
        ),
        "partition": ("partition", "vc", "queue", "queue_name"),
        "constraint": ("constraints", "constraint", "features", "gpu_spec"),
        "tasks": ("tasks", "ntasks", "inst_num"),
        "tasks_per_node": ("ntasks_per_node",),
        "cores_per_task": ("cpus_per_task",),
        "sockets": ("sockets",),
        "array_tasks": ("array_task_str",),
        "exclusive": ("exclusive",),
        "excluded": ("exclude", "excluded", "exc_nodes"),
        "required": ("required",),
        "after": ("dependency", "preceding"),
    }
)  # fmt: skip
# Columns in which jobs ask for resources or a reservation, in addition to the GPU columns above.
_DEMANDS = frozenset(
    (
        *"trespersocket trespernode trespertask tresperjob".split(),
        *"licenses burstbuffer gres allocgres reqgres gresused".split(),
        *"reservation resvname idresv".split(),
        *(name.replace("_", "") for name in _TRES),
    )
)

_TIMES = frozenset(("submit", "start", "end", "run", "suspended", "estimate"))
_COUNT_UNITS = {"percent": 1e-2, "milli": 1e-3, "1": 1.0, "K": 1e3}
_MIB_UNITS = {"B": 2.0**-20, "KB": 2.0**-10, "MB": 1.0, "GB": 2.0**10, "TB": 2.0**20}
# Units that an amount may refer to, by role, instead of the whole job: "per node", "per task", ...
_PER = {
    "processors": (OF_NODE, OF_TASK, OF_GPU, OF_SOCKET),
    "gpus": (OF_NODE, OF_TASK, OF_SOCKET),
    "memory": (OF_NODE, OF_TASK, OF_CORE, OF_GPU),
    "tasks": (OF_NODE,),
    "sockets": (OF_NODE,),
}


class Column(NamedTuple):
    """A column that has a role."""

    number: int  # in the table
    unit: float  # factor that turns plain numbers into seconds, MiB or counts
    of: str = ""  # unit that the amounts refer to ("node", "task", ...), empty if unknown


# Factors for columns whose plain numbers are not seconds, MiB or counts: Slurm's and LSF's limits are minutes.
_UNITS = MappingProxyType(
    {
        **dict.fromkeys(("timelimitraw", "timelimit", "runtimelimit"), 60.0),
        **dict.fromkeys(("cpumilli", "gpumilli"), 1e-3),
        **dict.fromkeys(("memperpodgb", "memoryrequest"), 1024.0),
    }
)
# Unit that the amounts of a column refer to, by its name.
_OF = MappingProxyType(
    {
        **dict.fromkeys(("reqmem", "memreq", "gresused", *(name.replace("_", "") for name in _TRES)), OF_JOB),
        **dict.fromkeys(("trespernode", "gres", "allocgres", "reqgres"), OF_NODE),
        **dict.fromkeys(("memorymib memory mem memperpodgb requestmemory memoryrequest minmemory".split()), OF_NODE),
        "trespersocket": OF_SOCKET,
        "trespertask": OF_TASK,
        "mempercpu": OF_CORE,
    }
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Special rules for tables that have all the columns in ``marks``.

    Parameters
    ----------
    marks
        Columns that identify such a table.
    units
        Units of other columns, in seconds or MiB.
    states
        Words for states that are numbers.
    unused
        Columns whose known role does not apply here.
    are_pods
        Whether a job is a pod, with all its processors on one node.
    has_steps
        Whether ``4711.1`` is a step of a job, and not a job.
    """

    marks: frozenset[str]
    units: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    are_pods: bool = False
    has_steps: bool = True


_DIALECTS = (
    # Slurm's database: states are the numbers of JOB_PENDING and its successors in slurm.h.
    Dialect(
        frozenset(("idjob",)),
        states=dict(
            zip(
                map(str, range(12)),
                ("PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE "
                 "OUT_OF_MEMORY").split(),
                strict=True,
            )
        ),
        unused=frozenset(("jobname",)),
    ),
    *(
        Dialect(
            frozenset((mark,)),
            states=dict(zip("1234567", "IDLE RUNNING CANCELLED COMPLETED HELD RUNNING HELD".split(), strict=True)),
            has_steps=False,
        )
        for mark in ("clusterid", "qdate")
    ),
    # Alibaba's instances of 2025.
    Dialect(frozenset(("instancesn", "cpurequest")), are_pods=True),
    # Time limits of Lassen and Frontier are in seconds.
    Dialect(frozenset(("allocationid",)), units={"timelimit": 1.0}),
    # PM100 counts memory in GB.
    Dialect(frozenset(("numnodesalloc", "numgpusalloc")), units={"memreq": 1024.0}),
)  # fmt: skip
_PLAIN = Dialect(frozenset())

# Columns of run times that are ignored if a table has start and end, because they cover more than the last run: the
# duration in Acme's Kalos trace includes the wait, and HTCondor adds up all runs of a job.
_LONGER_RUNS = frozenset(("duration", "remotewallclocktime"))


@dataclass(frozen=True, slots=True)
class Columns:
    """The roles of the columns of a table.

    Parameters
    ----------
    names
        Names of the columns by role: job, submit, start, end, run, estimate, nodes, processors, user, state,
        node_list, gpus, memory, partition, constraint and other parts of a request.
    units
        Units of plain numbers by role. Times: us, ms, s, min, h, d. Counts: percent, milli, K. Memory: B, KB, MB, GB,
        TB.
        A suffix states what the amount refers to: ``GB/node``, ``percent/task``, ``/gpu``, ``/socket``.
    delimiter
        The character between cells; None for the one that splits the first line into the most known names.
    header
        Names of all columns, in order, for a file without a header.
    tres
        Names of the trackable resources that appear as numbers in a dump of Slurm's database, as in
        ``sacctmgr show tres``: ``{"1002": "gres/gpu:volta"}``.
    ignored
        Names of demands to ignore, such as ``license/matlab``. A job with another demand that no request can express
        is dropped.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    header: tuple[str, ...] = ()
    tres: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for role in (*self.names, *self.units):
            if role not in _ROLES:
                raise UsageError(f"columns: there is no role {role!r}; the roles are {', '.join(_ROLES)}")
        for role, unit in self.units.items():
            _unit(role, unit)
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise UsageError(f"columns: the delimiter is {self.delimiter!r}, must be one character")
        if {"nodes", "processors"} <= self.names.keys():
            raise UsageError("columns: nodes and processors are both named; name one of them as a job's size")

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Read a mapping, the name of a ``.toml`` file or ``ROLE=COLUMN,...``, also with a unit: ``run=elapsed:min``.

        Parts without an equals sign name the columns of a file without a header, in the order of ``sacct -o``;
        ``ignore=NAME`` ignores a demand. The file has the tables ``columns``, ``units`` and ``tres``, a ``delimiter``,
        and lists ``header`` and ``ignore``. Raises `UsageError` for an unknown role or unit, `BadFileError` if the file
        cannot be read or is not a mapping.
        """
        if text.endswith(".toml"):
            return cls._read(Path(text))
        names, units = {}, {}
        header, ignored = [], []
        for part in text.split(","):
            role, equals, column = part.partition("=")
            if not equals and part.strip():
                header.append(_without_width(part))
                continue
            if not column:
                raise UsageError(f"columns: {part!r} in {text!r} is wrong: {_MUST}")
            if role.strip() == "ignore":
                ignored.append(column.strip())
                continue
            name, colon, unit = column.rpartition(":")
            names[role.strip()] = (name if colon else column).strip()
            if colon:
                units[role.strip()] = unit.strip()
        if 0 < len(header) < _FEWEST:
            raise UsageError(f"columns: {header[0]!r} in {text!r} is wrong: {_MUST}")
        return cls(names, units, header=tuple(header), ignored=frozenset(ignored))

    @classmethod
    def _read(cls, path: Path) -> "Columns":
        read = read_toml(path)
        keys = ("columns", "units", "delimiter", "header", "tres", "ignore")
        unknown = set(read) - set(keys)
        if unknown:
            raise bad_file(path, f"key {shown(min(unknown))} is unknown; keys are {', '.join(keys)}")
        tables: dict[str, Any] = {key: read.get(key, {}) for key in ("columns", "units", "tres")}
        for key, table in tables.items():
            if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
                raise bad_file(path, key, "must be a table of texts")
        delimiter, header = read.get("delimiter"), read.get("header", [])
        if not isinstance(delimiter, str | None):
            raise bad_file(path, "delimiter", "must be a text of one character")
        lists: dict[str, Any] = {"header": header.split(",") if isinstance(header, str) else header}
        lists["ignore"] = read.get("ignore", [])
        for key, listed in lists.items():
            if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
                raise bad_file(path, key, "must be a list of texts")
        try:
            return cls(
                names=tables["columns"],
                units=tables["units"],
                delimiter=delimiter,
                header=tuple(map(_without_width, lists["header"])),
                tres=tables["tres"],
                ignored=frozenset(lists["ignore"]),
            )
        except UsageError as error:
            raise bad_file(path, str(error)) from None

    @property
    def is_mapping(self) -> bool:
        """Whether any part of the mapping applies only to tables."""
        return bool(self.names or self.units or self.delimiter or self.header or self.tres)

    def size(self, found: Mapping[str, object]) -> str:
        """Return the role of a job's size: nodes if known and processors are not named, otherwise processors."""
        # Allocators assign nodes, so nodes come first.
        return "nodes" if "nodes" in found and "processors" not in self.names else "processors"

    def find(self, path: Path, header: Sequence[str]) -> dict[str, Column]:
        """Return the column of each role; raise `BadFileError` if a named or needed column is missing."""
        there = {plain_name(name): number for number, name in reversed(list(enumerate(header)))}
        dialect = _dialect(there)
        found = {}
        for role, known in _ROLES.items():
            named = self.names.get(role)
            if named is not None and plain_name(named) not in there:
                raise bad_file(path, "line 1", f"has no column {shown(named)}, named for {role}")
            names = [plain_name(name) for name in known] if named is None else [plain_name(named)]
            name = next((one for one in names if one in there and (named or one not in dialect.unused)), None)
            if name is not None:
                unit, of = dialect.units.get(name, _UNITS.get(name, 1.0)), _OF.get(name, "")
                if role in self.units:
                    unit, given = _unit(role, self.units[role])
                    of = given or of
                found[role] = Column(there[name], unit, of)
        # In some tables ``nodes`` is a number; in others it is a list, and another column has the number.
        if "node_list" in found and found["node_list"] == found.get("nodes"):
            del found["node_list"]
        if "run" in found and {"start", "end"} <= found.keys():
            if plain_name(header[found["run"].number]) in _LONGER_RUNS and "run" not in self.names:
                del found["run"]
        self._check(path, header, there, found)
        return found

    def _check(self, path: Path, header: Sequence[str], there: Mapping[str, int], found: Mapping[str, Column]) -> None:
        missing = [role for role in ("submit",) if role not in found]
        if "run" not in found and not {"start", "end"} <= found.keys():
            missing.append("run (or start and end)")
        if not {"nodes", "processors"} & found.keys():
            missing.append("nodes (or processors)")
        if not missing:
            return
        listed = ", ".join(name.strip() for name in header)
        fault = f"no column is known for {', '.join(missing)}"
        if {"sn", "cpumilli"} <= there.keys():
            fault += "; this is a list of nodes: give it with --cluster"
        elif not found and not self.header:
            fault += f"; {_NO_HEADER}"
        else:
            fault += "; name columns with --columns submit=NAME,run=NAME:min,nodes=NAME"
        raise bad_file(path, "line 1", f"{fault}; the columns are {listed}")

    def demands(self, header: Sequence[str], found: Mapping[str, Column]) -> list[tuple[Column, str]]:
        """Return the columns in which jobs ask for resources, each with its plain name.

        The first one is the preferred column of GPUs, with an empty name, if there is one.
        """
        plain = [plain_name(name) for name in header]
        order = [plain_name(name) for name in _ROLES["gpus"]]
        listed = [
            (Column(number, 1.0, _OF.get(name, "")), name)
            for number, name in enumerate(plain)
            if name in _DEMANDS and ("gpus" not in found or number != found["gpus"].number)
        ]
        listed.sort(key=lambda one: order.index(one[1]) if one[1] in order else len(order))
        return [(found["gpus"], ""), *listed] if "gpus" in found else listed

    def dialect(self, header: Sequence[str]) -> Dialect:
        """Return the special rules for a table."""
        return _dialect({plain_name(name): 0 for name in header})


_FEWEST = 3  # columns that a table needs: submission, run time, size
_MUST = (
    "give ROLE=COLUMN, or, for a file without a header, the names of all columns in order, or a file that ends in .toml"
)
_NO_HEADER = (
    "if the file has no header, give the names of its columns in order, as for sacct -o: "
    "--columns JobID,Submit,Elapsed,NNodes (then roles for columns with other names, such as run=Elapsed:min), "
    "or header = [...] in the file of --columns"
)


def _without_width(name: str) -> str:
    # ``sacct -o JobName%40``.
    return re.sub(r"%-?\d+$", "", name.strip())


def _unit(role: str, text: str) -> tuple[float, str]:
    # The factor of a unit, and the unit that amounts refer to, empty if not given.
    unit, slash, of = text.partition("/")
    known = UNITS_S if role in _TIMES else _MIB_UNITS if role == "memory" else _COUNT_UNITS
    per = _PER.get(role, ())
    if (unit or not slash) and unit not in known:
        raise UsageError(f"columns: the unit of {role} is {text!r}, must be one of {', '.join(known)}{_behind(per)}")
    if slash and of not in per:
        raise UsageError(f"columns: the unit of {role} is {text!r}, which cannot be per {of}{_behind(per)}")
    return known.get(unit, 1.0), of


def _behind(per: Sequence[str]) -> str:
    return f"; it may end in {', '.join(f'/{one}' for one in per)}" if per else ""


def _dialect(there: Mapping[str, int]) -> Dialect:
    return next((one for one in _DIALECTS if one.marks <= there.keys()), _PLAIN)


def known_names() -> frozenset[str]:
    """Return the known names of columns, as `plain_name` writes them."""
    return frozenset(plain_name(name) for names in _ROLES.values() for name in names) | _DEMANDS


def plain_name(name: str) -> str:
    """Return a column name for comparison: ``Job ID``, ``job_id`` and ``JobID`` are equal."""
    return re.sub(r"[\s_-]+", "", name).lower()
