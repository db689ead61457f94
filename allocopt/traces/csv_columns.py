"""The columns of a table of jobs: found by their names, or by a mapping."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from allocopt.errors import UsageError
from allocopt.files.cells import UNITS_S
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_toml

# What a column may mean, with the names that are known for it, in small letters, the best first: those of Slurm's
# accounting, of published traces (NREL, Acme, Helios, Philly, Lassen, openb), and of our own files of schedules.
_ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "job": ("jobidraw", "jobid", "job_id", "job_number", "id", "job", "allocation_id", "name"),
        "submit": (
            "submit", "submit_time", "submittime", "submitted", "time_submit", "arrival", "arrival_time",
            "job_submit_time", "creation_time",
        ),
        "start": ("start", "start_time", "starttime", "started", "time_start", "begin_time", "scheduled_time"),
        "end": ("end", "end_time", "endtime", "ended", "finish_time", "time_end", "deletion_time"),
        "run": ("elapsedraw", "elapsed", "run", "run_time", "runtime", "run_s", "duration", "wallclock_used"),
        "estimate": (
            "timelimitraw", "timelimit", "time_limit", "estimate", "estimate_s", "wallclock_req", "walltime",
            "requested_time", "req_walltime",
        ),
        "nodes": (
            "allocnodes", "nnodes", "nodes_alloc", "reqnodes", "nodes_req", "num_nodes", "n_nodes", "nodes", "node_num",
            "alloctres", "tres_alloc", "reqtres", "tres_req",
        ),
        "processors": (
            "alloccpus", "ncpus", "reqcpus", "processors", "processors_req", "num_procs", "n_cpus", "cpus", "cores",
            "cpu_num", "num_processors", "cpu_milli", "alloctres", "tres_alloc", "reqtres", "tres_req",
        ),
        "user": ("uid", "user", "user_id", "username", "hashed_user_id"),
        "account": ("account", "accountname", "project"),
        "state": ("state", "job_state", "status"),
        "node_list": ("nodelist", "node_list", "recorded_nodes"),
        "gpus": (
            "gpu_num", "num_gpu", "num_gpus", "n_gpus", "gpus", "gpus_req", "gres", "allocgres", "reqgres",
            "alloctres", "tres_alloc", "reqtres", "tres_req",
        ),
        "gpu_share": ("gpu_milli",),
        "memory": ("reqmem", "memory_mib", "memory", "mem", "mem_req", "mem_per_pod_gb"),
        "partition": ("partition", "vc", "queue"),
        "constraint": ("constraints", "constraint", "gpu_spec"),
        "tasks_per_node": ("ntasks_per_node",),
        "cores_per_task": ("cpus_per_task",),
        "exclusive": ("exclusive",),
        "excluded": ("exclude", "excluded"),
        "required": ("required",),
    }
)  # fmt: skip

# Columns whose bare numbers have another unit than seconds, MiB or one: Slurm's limits are minutes.
_UNITS = MappingProxyType(
    {"timelimitraw": 60.0, "timelimit": 60.0, "cpumilli": 1e-3, "gpumilli": 1e-3, "memperpodgb": 1024.0}
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The meaning of the columns of a table.

    Each role has the name of its column: job, submit, start, end, run, estimate, nodes, processors, user, account,
    state, node_list, gpus, memory, partition, constraint and others that requests have. Units of bare numbers by role
    are ms, s, min, h or d; seconds if not given. The delimiter between cells is one character; None for the one of
    ``, ; |`` and tabulator that the first line has most of.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None

    def __post_init__(self) -> None:
        for role in (*self.names, *self.units):
            if role not in _ROLES:
                raise UsageError(f"columns: there is no meaning {role!r}; there are {', '.join(_ROLES)}")
        for role, unit in self.units.items():
            if unit not in UNITS_S:
                raise UsageError(f"columns: the unit of {role} is {unit!r}, must be one of {', '.join(UNITS_S)}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise UsageError(f"columns: the delimiter is {self.delimiter!r}, must be one character")
        if {"nodes", "processors"} <= self.names.keys():
            raise UsageError("columns: both nodes and processors are named; a job's size is one of them")

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Read a mapping: a file ``.toml``, or ``ROLE=COLUMN,...`` with a unit after a colon, ``run=elapsed:min``.

        The file has the tables ``columns`` and ``units``, and a ``delimiter``. Raises `UsageError` for an unknown role
        or unit, `BadFileError` if the file cannot be read or is not a mapping.
        """
        if text.endswith(".toml"):
            path, read = Path(text), read_toml(Path(text))
            unknown = set(read) - {"columns", "units", "delimiter"}
            if unknown:
                raise bad_file(path, f"key {shown(min(unknown))} is unknown; keys are columns, units, delimiter")
            names, units, delimiter = read.get("columns", {}), read.get("units", {}), read.get("delimiter")
            for key, table in (("columns", names), ("units", units)):
                if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
                    raise bad_file(path, key, "must be a table of texts")
            if not isinstance(delimiter, str | None):
                raise bad_file(path, "delimiter", "must be a text of one character")
            try:
                return cls(names, units, delimiter)
            except UsageError as error:
                raise bad_file(path, str(error)) from None
        names, units = {}, {}
        for part in text.split(","):
            role, equals, column = part.partition("=")
            if not equals or not column:
                raise UsageError(f"columns {text!r} hold {part!r}, must be ROLE=COLUMN, or one file that ends in .toml")
            name, colon, unit = column.rpartition(":")
            names[role.strip()] = (name if colon else column).strip()
            if colon:
                units[role.strip()] = unit.strip()
        return cls(names, units)

    def size(self, found: Mapping[str, object]) -> str:
        """Return the role that says how large a job is: its nodes where they are known and processors are not named."""
        # Nodes are what allocators give away.
        return "nodes" if "nodes" in found and "processors" not in self.names else "processors"

    def find(self, path: Path, header: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Return the number of each role's column and its unit in seconds, MiB or ones."""
        there = {plain_name(name): number for number, name in reversed(list(enumerate(header)))}
        found = {}
        for role, known in _ROLES.items():
            named = self.names.get(role)
            if named is not None and plain_name(named) not in there:
                raise bad_file(path, "line 1", f"has no column {shown(named)}, which is to mean {role}")
            names = known if named is None else (named,)
            name = next((name for name in map(plain_name, names) if name in there), None)
            if name is not None:
                # Lassen's limits are seconds.
                usual = 1.0 if "allocationid" in there else _UNITS.get(name, 1.0)
                found[role] = there[name], UNITS_S[self.units[role]] if role in self.units else usual
        # Acme's Kalos counts the wait into the duration.
        if "run" in found and plain_name(header[found["run"][0]]) == "duration" and {"start", "end"} <= found.keys():
            del found["run"]
        missing = [role for role in ("submit",) if role not in found]
        if "run" not in found and not {"start", "end"} <= found.keys():
            missing.append("run (or start and end)")
        if not {"nodes", "processors"} & found.keys():
            missing.append("nodes (or processors)")
        if missing:
            listed = ", ".join(name.strip() for name in header)
            fault = f"no column is known to mean {', '.join(missing)}; there are {listed}"
            if {"sn", "cpumilli"} <= there.keys():
                fault += "; this is a list of nodes, of which a cluster is read"
            raise bad_file(path, "line 1", fault)
        return found


def plain_name(name: str) -> str:
    """Return the name of a column as it is compared: ``Job ID``, ``job_id`` and ``JobID`` are one."""
    return re.sub(r"[\s_-]+", "", name).lower()
