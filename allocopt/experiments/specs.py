"""Specifications of simulations and solves, shared by the command line, TOML files, Python and sweeps."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from allocopt.experiments.fields import About, FieldError, MachineKind, Specification
from allocopt.files.faults import shown
from allocopt.files.models import FileModel, Node, Positive, Text

_LARGEST = 1_000_000_000  # Limit on numbers, sizes and times: larger than any useful value, and safe from overflow

BackfillName = Literal["none", "first-fit", "easy", "conservative"]
Seconds = Annotated[float, Field(gt=0.0)]
_Count = Annotated[int, Field(ge=1, le=_LARGEST)]
_Strategy = Literal["scas", "dcas", "free"]

_NODES: Sequence[MachineKind] = ("nodes",)
_ONE_POOL: Sequence[MachineKind] = ("processors", "nodes")
_MULTICORE: Sequence[MachineKind] = ("multicore",)


def _field(
    description: str,
    machines: Sequence[MachineKind] = ("processors", "nodes", "multicore"),
    *,
    is_file: bool = False,
    names: str = "",
    **settings: Any,
) -> Any:
    if "default_factory" not in settings:
        settings.setdefault("default", None)
    field = Field(description=description, **settings)
    field.metadata.append(About(machines, is_file, names))
    return field


def _shape(value: object) -> object:
    parts: list[object] = value if isinstance(value, list) else []
    # No cluster is larger than this limit.
    if len(parts) != 3 or not all(isinstance(part, int) and 1 <= part < 10**18 for part in parts):
        shape = ",".join(map(str, parts)) if parts else value
        raise ValueError(f"is {shown(shape)}, must be three positive numbers such as 10,10,10")
    return value


class SettingFields(FileModel):
    """The machine of a simulation, the selected part of the trace, and the rules."""

    processors: _Count | None = _field("Set the machine size; default: the trace's.", ("processors",))
    processors_per_node: _Count = _field(
        "Count this many processors of the trace as a node; jobs get whole nodes.", _ONE_POOL, default=1
    )
    fat_tree: Annotated[list[Positive], BeforeValidator(_shape)] | None = _field(
        "Use whole nodes of a fat tree: pods, leaves per pod, nodes per leaf.", _NODES
    )
    topology: Text | None = _field(
        "Use whole nodes of Slurm's topology.conf or .yaml (FILE#NAME), kubectl get nodes -o json, or .graphml.",
        _NODES,
        is_file=True,
    )
    cluster: list[Text] | None = _field(
        "Let jobs share the nodes of this cluster: slurm.conf,gres.conf,topology.conf, or a file for --topology.",
        _NODES,
        is_file=True,
        min_length=1,
    )
    labels: list[Text] | None = _field(
        "Name the keys of the Kubernetes labels that give the levels, from the top down.", _NODES, min_length=1
    )
    include_unavailable: list[Text] | None = _field(
        "Use nodes that are unavailable for these reasons, such as drained, or for all.", _NODES, min_length=1
    )
    downtimes: Text | None = _field(
        "Take nodes out of service: .csv with nodes, begin_s, end_s (seconds after the first submission), "
        "announced (yes or no).",
        _NODES,
        is_file=True,
    )
    platform: Text | None = _field(
        "Run jobs of tasks on this multicore machine: .toml, .json (also IRMaSim's) or .xml of Batsim; "
        "FILE#NAME selects one.",
        _MULTICORE,
        is_file=True,
    )
    types: Text | None = _field("Read IRMaSim's node and processor types from this folder.", _MULTICORE, is_file=True)
    columns: Text | None = _field(
        "Name the columns of a table of jobs by role, such as submit=queued,run=took:min,nodes=size (all in order if "
        "it has no header), or give a .toml file.",
        _ONE_POOL,
        is_file=True,
    )
    strict: bool = _field("Refuse a trace with a damaged row.", _ONE_POOL, default=False)
    max_jobs: _Count | None = _field("Simulate only the first N jobs.")
    skip_oversized: bool = _field("Drop and count jobs larger than the machine.", _ONE_POOL, default=False)
    exact_estimates: bool = _field("Give schedulers the run times as estimates.", _ONE_POOL, default=False)
    kill_at_limit: bool | None = _field("End jobs at their estimate; by default unless they share cores or memory.")
    event_order: Literal["batched", "sequential"] = _field(
        "Run one pass per time, or per event (sequential).", _ONE_POOL, default="batched"
    )
    dependencies: bool = _field(
        "Let jobs wait for their preceding job in the trace and the think time after it.", _ONE_POOL, default=True
    )
    profiles: Text | None = _field(
        "Read the demands of executables on shared cores from this .toml; by default executables 1 to 4 are the "
        "workflows of the ASAX paper.",
        ("processors",),
        is_file=True,
    )
    execution: Literal["contention", "baseline"] = _field(
        "Let cores share memory channels and power (contention) or not (baseline).", _MULTICORE, default="contention"
    )
    sharing: Seconds = _field("Weight further tasks by this in the floor of the speed factor.", _MULTICORE, default=1.0)

    @property
    def machine_kind(self) -> MachineKind:
        """Kind of the machine."""
        if self.platform is not None:
            return "multicore"
        return "nodes" if self.fat_tree or self.topology or self.cluster else "processors"


class SimulationSpec(SettingFields, Specification):
    """A simulation: a trace, a machine, rules and a policy."""

    trace: Annotated[
        Text,
        _field(
            "Read this workload: .swf, .json, .events, .parquet, a table (.csv, sacct's), accounting logs, or lines of "
            "id, arrival s, run s, nodes; text also as .gz; or a trace of fetch-trace.",
            default=...,
            is_file=True,
        ),
    ]
    policy: Text = _field(
        "Use this policy: a queue order such as sjf or sjf+easy; window, optimization, dras-ppo; asax, static-50 "
        "(jobs share cores); with platform: JOBS-NODES such as first-low_power.",
        default="fcfs",
        names="policies",
    )
    options: dict[str, Any] = _field("Set an option of the policy; repeatable.", default_factory=dict)
    backfill: BackfillName | None = _field("Choose backfilling: none, first-fit, easy, conservative.", _ONE_POOL)
    backfill_order: Text | None = _field(
        "Try jobs for backfilling in this queue order; by default the policy's.", _ONE_POOL
    )
    conservative_compression: bool = _field(
        "Plan conservative reservations again when a job ends early; otherwise they never move.",
        _ONE_POOL,
        default=True,
    )
    allocator: Text | None = _field("Use this allocator; default: first idle.", _NODES, names="solvers")
    strategy: _Strategy | None = _field("Use this strategy of the allocator; by default free.", _NODES)
    time_limit: Seconds | None = _field("Limit the allocator's seconds for jobs that start together.", _NODES)
    iterations: Positive | None = _field("Limit the allocator's steps for jobs that start together.", _NODES)
    seed: Node = _field("Seed all random choices.", default=0)
    placement: Text | None = _field(
        "Start jobs on the nodes and at the times of this .csv: job_id, node, start_s; compare with its duration_s.",
        _MULTICORE,
        is_file=True,
    )
    trim: float = _field("Exclude this share of jobs at either end from measures.", default=0.0, ge=0.0, le=0.49)
    starvation: float = _field("Count a job as starved if it waits more seconds than this.", default=86_400.0, ge=0.0)

    def check(self) -> None:
        """Raise `FieldError` if fields cannot be combined with the machine, or two of them state its size."""
        sizes = [name for name in ("processors", "fat_tree", "topology", "cluster") if getattr(self, name) is not None]
        if len(sizes) > 1 and self.platform is None:
            raise FieldError(sizes[0], f"{' and '.join(sizes)} state the size of the machine: give only one of them")
        kind, makers = self.machine_kind, "fat_tree, topology or cluster"
        for name in self.model_fields_set:
            field, machines = type(self).model_fields[name], self.about(name).machines
            if kind not in machines and getattr(self, name) != field.get_default(call_default_factory=True):
                if kind == "multicore":
                    raise FieldError(name, "cannot be combined with platform")
                if tuple(machines) == ("multicore",):
                    raise FieldError(name, "needs platform, which is not given")
                if kind == "processors":
                    raise FieldError(name, f"needs the topology of the nodes: give {makers}")
                raise FieldError(name, f"is for a pool of processors and cannot be combined with {makers}")
        if self.downtimes is not None:
            self._check_downtimes()
        if self.strategy is not None and self.allocator is None:
            raise FieldError("strategy", "needs an allocator, which is not given")
        if self.placement is not None and self.policy != "fcfs":
            raise FieldError("policy", "cannot be combined with placement, which states when and where jobs start")

    def _check_downtimes(self) -> None:
        if self.fat_tree is not None or self.machine_kind == "processors":
            raise FieldError("downtimes", "needs a machine whose nodes have names: give topology or cluster")
        if self.strategy is not None:
            fault = "is for solvers that choose whole nodes of one tree; these do not support downtimes"
            raise FieldError("strategy", fault)


class SolveSpec(Specification):
    """Solves: instances, a solver, its limits and its seed."""

    instances: Annotated[
        list[Text],
        _field(
            "Solve these instance files (.json, .jsonl, also .gz), or shipped ones: @tiny (windows), @knapsacks, "
            "@coallocations, @placements, @relocations.",
            default=...,
            is_file=True,
            min_length=1,
        ),
    ]
    strategy: _Strategy | None = _field("Use this strategy; by default free.")
    solver: str = _field("Use this solver; `allocopt solvers` lists all.", default="auto", names="solvers")
    options: dict[str, Any] = _field("Set an option of the solver; repeatable.", default_factory=dict)
    time_limit: (
        Annotated[
            float, Field(allow_inf_nan=True), AfterValidator(lambda seconds: None if seconds == math.inf else seconds)
        ]
        | None
    ) = _field("Limit each solve to this many seconds of wall-clock time.", default=10.0)
    iterations: Positive | None = _field("Limit the solver's own steps; by default the solver decides.")
    gap: float = _field("Stop at this gap between solution and bound (0.01 is 1 %).", default=0.0, ge=0.0)
    seed: Node = _field("Seed all random choices.", default=0)
    warm_start: Text | None = _field("Begin with this solution; only with one instance.", is_file=True)
    exclude_nodes: Text | None = _field("Give no job these nodes: 3,7-9, or with --nodelist a hostlist of names.")
