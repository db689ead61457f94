"""Specifications of simulations and solves, used alike by command line, TOML files, Python and sweeps."""

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from allocopt.experiments.fields import About, FieldError, MachineKind, Specification
from allocopt.files.faults import shown
from allocopt.files.models import FileModel, Node, Positive, Text

LARGEST = 1_000_000_000
"""Largest number, size or time of a field: beyond any that makes sense, and safe from overflow."""

BackfillName = Literal["none", "first-fit", "easy", "conservative"]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Seconds = Annotated[float, Field(gt=0.0)]

_POOL = About(("processors",))
_ONE_POOL = About(("processors", "nodes"))
_NODES = About(("nodes",))
_NODE_FILE = About(("nodes",), is_file=True)
_MULTICORE = About(("multicore",))
_MULTICORE_FILE = About(("multicore",), is_file=True)


def _shape(value: object) -> object:
    parts: list[object] = value if isinstance(value, list) else []
    # More digits than any cluster has are none of a size.
    if len(parts) != 3 or not all(isinstance(part, int) and 1 <= part < 10**18 for part in parts):
        shape = ",".join(map(str, parts)) if parts else value
        raise ValueError(f"is {shown(shape)}, must be three positive numbers such as 10,10,10")
    return value


class SettingFields(FileModel):
    """The machine on which a trace is simulated, what is taken of the trace, and the rules."""

    processors: Annotated[
        Count | None, Field(description="Processors of the machine; if not given, as the trace says."), _POOL
    ] = None
    processors_per_node: Annotated[
        Count, Field(description="Processors of the trace per node; jobs get whole nodes."), _ONE_POOL
    ] = 1
    fat_tree: Annotated[
        Annotated[list[Positive], BeforeValidator(_shape)] | None,
        Field(description="Whole nodes of a tree: pods, leaves, nodes."),
        _NODES,
    ] = None
    topology: Annotated[
        Text | None,
        Field(
            description="Whole nodes: topology.conf or .yaml (FILE#NAME) of Slurm, kubectl get nodes -o json, .graphml."
        ),
        _NODE_FILE,
    ] = None
    cluster: Annotated[
        list[Text] | None,
        Field(
            min_length=1,
            description="Share nodes: slurm.conf,gres.conf,topology.conf, or as topology.",
        ),
        _NODE_FILE,
    ] = None
    labels: Annotated[
        list[Text] | None,
        Field(min_length=1, description="Keys of the labels of Kubernetes that name the levels, from the top down."),
        _NODES,
    ] = None
    platform: Annotated[
        Text | None,
        Field(
            description="Run jobs of tasks on this multicore machine: .toml, .json (IRMaSim's too) or .xml of Batsim; "
            "FILE#NAME chooses."
        ),
        _MULTICORE_FILE,
    ] = None
    types: Annotated[
        Text | None, Field(description="Folder of IRMaSim's node and processor types."), _MULTICORE_FILE
    ] = None
    columns: Annotated[
        Text | None,
        Field(
            description="Columns of a table of jobs, ROLE=COLUMN,...: job, submit, run (or start, end), estimate, "
            "nodes or processors, user, state; with a unit, run=elapsed:min; or a .toml file."
        ),
        About(("processors", "nodes"), is_file=True),
    ] = None
    strict: Annotated[bool, Field(description="Refuse a trace with a damaged row."), _ONE_POOL] = False
    max_jobs: Annotated[Count | None, Field(description="Only the first jobs submitted.")] = None
    skip_oversized: Annotated[bool, Field(description="Drop and count jobs larger than the machine."), _ONE_POOL] = (
        False
    )
    exact_estimates: Annotated[bool, Field(description="Let schedulers know the run times."), _ONE_POOL] = False
    kill_at_limit: Annotated[
        bool | None,
        Field(description="End jobs when their estimate is over; if not given, unless they share cores or memory."),
    ] = None
    event_order: Annotated[
        Literal["batched", "sequential"],
        Field(description="One pass after all events at one time, or sequential: one after each."),
        _ONE_POOL,
    ] = "batched"
    dependencies: Annotated[
        bool,
        Field(description="Let jobs wait for the preceding job that the trace names, and the think time."),
        _ONE_POOL,
    ] = True
    profiles: Annotated[
        Text | None,
        Field(
            description="What the executables of the trace ask of shared cores, as .toml; if not given, 1 to 4 are the "
            "workflows of the ASAX paper."
        ),
        About(("processors",), is_file=True),
    ] = None
    execution: Annotated[
        Literal["contention", "baseline"],
        Field(description="Whether cores share memory channels and power."),
        _MULTICORE,
    ] = "contention"
    sharing: Annotated[
        Seconds, Field(description="Weight of each further task in the floor of the speed factor."), _MULTICORE
    ] = 1.0

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
        Field(
            description="Workload: .swf, .json, .events, .parquet, a table .csv or sacct's, text also .gz, else id, "
            "arrival s, run s, nodes a line; or a trace of fetch-trace."
        ),
        About(is_file=True),
    ]
    policy: Annotated[
        Text,
        Field(
            description="Queue order, as sjf or sjf+easy; window, optimization, dras-ppo; asax, static-50 (jobs share "
            "cores); with platform JOBS-NODES, as first-low_power."
        ),
        About(names="policies"),
    ] = "fcfs"
    options: Annotated[dict[str, Any], Field(description="An option of the policy; repeatable.")] = Field(
        default_factory=dict
    )
    backfill: Annotated[
        BackfillName | None,
        Field(description="Jobs that may overtake others: none, first-fit, easy, conservative."),
        About(("processors", "nodes")),
    ] = None
    backfill_order: Annotated[
        Text | None,
        Field(description="Queue order in which jobs are tried for backfilling; if not given, the policy's."),
        _ONE_POOL,
    ] = None
    conservative_compression: Annotated[
        bool,
        Field(description="Plan all conservative reservations anew when a job ends early; else they never move."),
        _ONE_POOL,
    ] = True
    allocator: Annotated[
        Text | None,
        Field(description="Solver that chooses nodes; if not given, the first idle ones."),
        About(("nodes",), names="solvers"),
    ] = None
    strategy: Annotated[
        Literal["scas", "dcas", "free"] | None,
        Field(description="Strategy of the allocator: free if not given."),
        _NODES,
    ] = None
    time_limit: Annotated[
        Seconds | None, Field(description="Seconds that the allocator may take for jobs that start together."), _NODES
    ] = None
    iterations: Annotated[Positive | None, Field(description="Steps that it may take for them."), _NODES] = None
    seed: Annotated[Node, Field(description="Fixes every random choice.")] = 0
    placement: Annotated[
        Text | None,
        Field(description="Start jobs where and when this .csv says: job_id, node, start_s; with duration_s, compare."),
        _MULTICORE_FILE,
    ] = None
    trim: Annotated[float, Field(ge=0.0, le=0.49, description="Share of jobs not measured at either end.")] = 0.0
    starvation: Annotated[float, Field(ge=0.0, description="Wait in seconds beyond which a job counts as starved.")] = (
        86_400.0
    )

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
        if self.strategy is not None and self.allocator is None:
            raise FieldError("strategy", "is that of an allocator, which is not given")
        if self.placement is not None and self.policy != "fcfs":
            raise FieldError("policy", "does not go with placement, which says when and where jobs start")


class SolveSpec(Specification):
    """Solves: instances, a solver, its limits and its seed."""

    instances: Annotated[
        list[Text],
        Field(
            min_length=1,
            description="Instance files (.json, .jsonl, also .gz), or shipped ones: @tiny (windows), @knapsacks, "
            "@coallocations, @placements.",
        ),
        About(is_file=True),
    ]
    strategy: Annotated[
        Literal["scas", "dcas", "free"] | None, Field(description="For topology problems; free if not given.")
    ] = None
    solver: Annotated[
        str, Field(description="Name of a solver; `allocopt solvers` lists them."), About(names="solvers")
    ] = "auto"
    options: Annotated[dict[str, Any], Field(description="An option of the solver; repeatable.")] = Field(
        default_factory=dict
    )
    time_limit: Annotated[
        Annotated[
            float, Field(allow_inf_nan=True), AfterValidator(lambda seconds: None if seconds == math.inf else seconds)
        ]
        | None,
        Field(description="Limit on each solve, in seconds of wall clock."),
    ] = 10.0
    iterations: Annotated[
        Positive | None, Field(description="Limit on the solver's own steps; if not given, its default.")
    ] = None
    gap: Annotated[float, Field(ge=0.0, description="Stop at this gap between solution and bound (0.01 is 1 %).")] = 0.0
    seed: Annotated[Node, Field(description="Fixes every random choice.")] = 0
    warm_start: Annotated[
        Text | None, Field(description="Solution to begin with; for one instance."), About(is_file=True)
    ] = None
    exclude_nodes: Annotated[
        Text | None,
        Field(description="Nodes that no job may get: 3,7-9, or with --nodelist a hostlist of names."),
    ] = None
