"""Specifications of simulations and solves, used alike by command line, TOML files, Python and sweeps."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from allocopt.experiments.fields import About, FieldError, MachineKind, Specification
from allocopt.files.faults import shown
from allocopt.files.models import FileModel, Node, Positive, Text

_LARGEST = 1_000_000_000  # Number, size or time of a field: beyond any that makes sense, and safe from overflow

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
    # No cluster has a size with more digits.
    if len(parts) != 3 or not all(isinstance(part, int) and 1 <= part < 10**18 for part in parts):
        shape = ",".join(map(str, parts)) if parts else value
        raise ValueError(f"is {shown(shape)}, must be three positive numbers such as 10,10,10")
    return value


class SettingFields(FileModel):
    """The machine of a simulation, the part of the trace that is used, and the rules."""

    processors: _Count | None = _field("Processors of the machine; if not given, as the trace says.", ("processors",))
    processors_per_node: _Count = _field(
        "Processors of the trace per node; jobs get whole nodes.", _ONE_POOL, default=1
    )
    fat_tree: Annotated[list[Positive], BeforeValidator(_shape)] | None = _field(
        "Whole nodes of a tree: pods, leaves, nodes.", _NODES
    )
    topology: Text | None = _field(
        "Whole nodes: topology.conf or .yaml (FILE#NAME) of Slurm, kubectl get nodes -o json, .graphml.",
        _NODES,
        is_file=True,
    )
    cluster: list[Text] | None = _field(
        "Share nodes: slurm.conf,gres.conf,topology.conf, or as for topology.", _NODES, is_file=True, min_length=1
    )
    labels: list[Text] | None = _field(
        "Keys of the Kubernetes labels that name the levels, from the top down.", _NODES, min_length=1
    )
    include_unavailable: list[Text] | None = _field(
        "Offer nodes left out for these reasons, such as drained, or for all.", _NODES, min_length=1
    )
    downtimes: Text | None = _field(
        "When named nodes take no jobs: .csv with nodes, begin_s, end_s (seconds after the first submission), "
        "announced (yes or no).",
        _NODES,
        is_file=True,
    )
    platform: Text | None = _field(
        "Run jobs of tasks on this multicore machine: .toml, .json (IRMaSim's too) or .xml of Batsim; "
        "FILE#NAME chooses.",
        _MULTICORE,
        is_file=True,
    )
    types: Text | None = _field("Folder of IRMaSim's node and processor types.", _MULTICORE, is_file=True)
    columns: Text | None = _field(
        "Columns of a table of jobs by role, submit=queued,run=took:min,nodes=size; or the names of all, "
        "in order, if it has no header; or a .toml file.",
        _ONE_POOL,
        is_file=True,
    )
    strict: bool = _field("Refuse a trace with a damaged row.", _ONE_POOL, default=False)
    max_jobs: _Count | None = _field("Only the first jobs submitted.")
    skip_oversized: bool = _field("Drop and count jobs larger than the machine.", _ONE_POOL, default=False)
    exact_estimates: bool = _field("Let schedulers know the run times.", _ONE_POOL, default=False)
    kill_at_limit: bool | None = _field(
        "End jobs when their estimate is over; if not given, unless they share cores or memory."
    )
    event_order: Literal["batched", "sequential"] = _field(
        "One pass per time, or sequential: one per event.", _ONE_POOL, default="batched"
    )
    dependencies: bool = _field(
        "Let jobs wait for the preceding job that the trace names, and the think time.", _ONE_POOL, default=True
    )
    profiles: Text | None = _field(
        "What the executables of the trace ask of shared cores, as .toml; if not given, 1 to 4 are the "
        "workflows of the ASAX paper.",
        ("processors",),
        is_file=True,
    )
    execution: Literal["contention", "baseline"] = _field(
        "Whether cores share memory channels and power.", _MULTICORE, default="contention"
    )
    sharing: Seconds = _field("Weight of each further task in the floor of the speed factor.", _MULTICORE, default=1.0)

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
            "Workload: .swf, .json, .events, .parquet, a table .csv or sacct's, text also .gz, else id, "
            "arrival s, run s, nodes a line; or a trace of fetch-trace.",
            default=...,
            is_file=True,
        ),
    ]
    policy: Text = _field(
        "Queue order, as sjf or sjf+easy; window, optimization, dras-ppo; asax, static-50 (jobs share "
        "cores); with platform JOBS-NODES, as first-low_power.",
        default="fcfs",
        names="policies",
    )
    options: dict[str, Any] = _field("An option of the policy; repeatable.", default_factory=dict)
    backfill: BackfillName | None = _field(
        "Jobs that may overtake others: none, first-fit, easy, conservative.", _ONE_POOL
    )
    backfill_order: Text | None = _field(
        "Queue order in which jobs are tried for backfilling; if not given, the policy's.", _ONE_POOL
    )
    conservative_compression: bool = _field(
        "Plan all conservative reservations anew when a job ends early; else they never move.", _ONE_POOL, default=True
    )
    allocator: Text | None = _field("Solver that picks nodes; else the first idle.", _NODES, names="solvers")
    strategy: _Strategy | None = _field("Strategy of the allocator: free if not given.", _NODES)
    time_limit: Seconds | None = _field("Seconds that the allocator may take for jobs that start together.", _NODES)
    iterations: Positive | None = _field("Steps that it may take for them.", _NODES)
    seed: Node = _field("Fixes every random choice.", default=0)
    placement: Text | None = _field(
        "Start jobs where and when this .csv says: job_id, node, start_s; with duration_s, compare.",
        _MULTICORE,
        is_file=True,
    )
    trim: float = _field("Share of jobs not measured at either end.", default=0.0, ge=0.0, le=0.49)
    starvation: float = _field("Wait in seconds beyond which a job counts as starved.", default=86_400.0, ge=0.0)

    def check(self) -> None:
        """Raise `FieldError` where fields do not go with the machine, or two say how large it is."""
        sizes = [name for name in ("processors", "fat_tree", "topology", "cluster") if getattr(self, name) is not None]
        if len(sizes) > 1 and self.platform is None:
            raise FieldError(sizes[0], f"{' and '.join(sizes)} both say how large the machine is: give one")
        kind, makers = self.machine_kind, "fat_tree, topology or cluster"
        for name in self.model_fields_set:
            field, machines = type(self).model_fields[name], self.about(name).machines
            if kind not in machines and getattr(self, name) != field.get_default(call_default_factory=True):
                if kind == "multicore":
                    raise FieldError(name, "does not go with platform")
                if tuple(machines) == ("multicore",):
                    raise FieldError(name, "goes with platform, which is not given")
                if kind == "processors":
                    raise FieldError(name, f"needs to know how the nodes are connected: give {makers}")
                raise FieldError(name, f"is for processors of a pool: it does not go with {makers}")
        if self.downtimes is not None:
            self._check_downtimes()
        if self.strategy is not None and self.allocator is None:
            raise FieldError("strategy", "is that of an allocator, which is not given")
        if self.placement is not None and self.policy != "fcfs":
            raise FieldError("policy", "does not go with placement, which says when and where jobs start")

    def _check_downtimes(self) -> None:
        if self.fat_tree is not None or self.machine_kind == "processors":
            raise FieldError(
                "downtimes", "names nodes, and those of this machine have no names: give topology or cluster"
            )
        if self.strategy is not None:
            fault = "is for solvers that choose whole nodes of one tree, which downtimes do not go with"
            raise FieldError("strategy", fault)


class SolveSpec(Specification):
    """Solves: instances, a solver, its limits and its seed."""

    instances: Annotated[
        list[Text],
        _field(
            "Instance files (.json, .jsonl, also .gz), or shipped ones: @tiny (windows), @knapsacks, "
            "@coallocations, @placements, @relocations.",
            default=...,
            is_file=True,
            min_length=1,
        ),
    ]
    strategy: _Strategy | None = _field("For topology problems; free if not given.")
    solver: str = _field("Name of a solver; `allocopt solvers` lists them.", default="auto", names="solvers")
    options: dict[str, Any] = _field("An option of the solver; repeatable.", default_factory=dict)
    time_limit: (
        Annotated[
            float, Field(allow_inf_nan=True), AfterValidator(lambda seconds: None if seconds == math.inf else seconds)
        ]
        | None
    ) = _field("Limit on each solve, in seconds of wall clock.", default=10.0)
    iterations: Positive | None = _field("Limit on the solver's own steps; if not given, its default.")
    gap: float = _field("Stop at this gap between solution and bound (0.01 is 1 %).", default=0.0, ge=0.0)
    seed: Node = _field("Fixes every random choice.", default=0)
    warm_start: Text | None = _field("Solution to begin with; for one instance.", is_file=True)
    exclude_nodes: Text | None = _field("Nodes that no job may get: 3,7-9, or with --nodelist a hostlist of names.")
