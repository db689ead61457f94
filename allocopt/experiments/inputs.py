"""Instances and traces that a sweep file names, with digests of their contents; paths are relative to the file."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from glob import glob
from hashlib import sha256
from pathlib import Path

import numpy as np

from allocopt.cluster.platform import NODES, Platform
from allocopt.cluster.reading import read_machine, read_topology
from allocopt.cluster.topology import FatTree, Topology
from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.cells import digest
from allocopt.experiments.description import InstancesModel, SweepModel, TraceModel, placed
from allocopt.experiments.simulate_task import Replay, TaskReplay
from allocopt.problems.base import Problem
from allocopt.problems.instances import object_from_problem, read_instances
from allocopt.simulator.multicore.state import IDLE, Execution, ExecutionKind, check_jobs
from allocopt.simulator.rules import EventOrder, Rules
from allocopt.traces.csv_columns import Columns
from allocopt.traces.executables import read_profiles
from allocopt.traces.irmasim import read_irmasim
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import COLUMNS, Workload

PATTERN = "*?["
"""Characters that make a name a pattern."""

ONE_POOL = (
    *("processors", "processors_per_node", "fat_tree", "topology", "labels", "columns", "skip_oversized"),
    *("exact_estimates", "dependencies", "event_order", "profiles"),
)
"""Keys of a trace that are for other machines than multicore platforms."""


def instances_of(path: Path, tables: Sequence[InstancesModel]) -> list[Problem]:
    """Read the instances; names differ from file to file.

    Raises
    ------
    BadFileError
        If one is missing or wrong, or has the name of another.
    """
    problems: dict[str, Problem] = {}
    read: set[Path] = set()
    for number, table in enumerate(tables):
        with placed(path, f"instances[{number}].files"):
            named = dict.fromkeys(file for name in table.files for file in _files(path.parent, name))
            for problem in read_instances([file for file in named if file not in read]):
                if problem.name in problems:
                    raise UsageError(f"{problem.name!r} is the name of an instance of another table too")
                problems[problem.name] = problem
            read.update(named)
    return list(problems.values())


def files_of(path: Path, described: SweepModel) -> list[Path]:
    """Return the files that hold the inputs, each once, whatever they are called."""
    folder = path.parent
    files = [file for table in described.instances for name in table.files for file in _files(folder, name)]
    for table in described.traces:
        names = [table.file, table.columns or "", table.profiles or ""]
        names += [(name or "").partition("#")[0] for name in (table.topology, table.platform)]
        files += [folder / name for name in names if name and (folder / name).is_file()]
    return list(dict.fromkeys(file.resolve() for file in files))


def traces_of(path: Path, tables: Sequence[TraceModel]) -> Iterator[tuple[str, Replay | TaskReplay]]:
    """Yield every trace, prepared for its machine, with a digest of all that it is.

    Raises
    ------
    BadFileError
        If one is missing or wrong, or does not fit its machine.
    """
    for number, table in enumerate(tables):
        with placed(path, f"traces[{number}]"):
            replay = _replay(path.parent, table) if table.platform is None else _task_replay(path.parent, table)
            source = _replay_digest(replay, table) if isinstance(replay, Replay) else _task_digest(replay)
        yield source, replay


def problem_digest(problem: Problem) -> str:
    """Return a digest of an instance, wherever it stands."""
    return digest(object_from_problem(problem))


def workload_digest(workload: Workload) -> str:
    """Return a digest of the jobs of a workload."""
    jobs = sha256()
    for column in COLUMNS:
        jobs.update(getattr(workload, column).tobytes())
    return jobs.hexdigest()


def topology_digest(topology: Topology | None) -> str | None:
    """Return a digest of how the nodes are connected, from whatever files that was read."""
    if topology is None:
        return None
    groups = sha256(topology.groups_of(np.arange(topology.size)).tobytes()).hexdigest()
    return digest([groups, topology.hops, topology.pairs])


def _files(folder: Path, name: str) -> list[Path]:
    """Return the files that a name, or a pattern, stands for."""
    if name.startswith("@"):
        return [Path(name)]
    if not any(character in name for character in PATTERN):
        return [folder / name]
    found = sorted(glob(name, root_dir=folder, recursive=True))
    if not found:
        raise UsageError(f"no file is like {name!r}")
    return [folder / one for one in found]


def _replay(folder: Path, table: TraceModel) -> Replay:
    """Read a trace and bring it to its machine."""
    _check_left_out(table, ("types", "execution", "sharing"), "goes with platform, which is not given")
    workload = read_workload(_beside(folder, table.file), _columns(folder, table.columns))
    workload = workload.in_nodes(table.processors_per_node)
    platform = _platform(workload, table, _topology(folder, table))
    if table.skip_oversized:
        workload = workload.fitting(platform.size)
    if table.max_jobs is not None:
        workload = workload.first(table.max_jobs)
    if table.exact_estimates:
        kills = table.kill_at_limit is not False
        workload = (workload.killed_at_limit() if kills else workload).with_exact_estimates()
    _check_fits(workload, platform)
    workload = replace(workload, name=table.name or workload.name)
    rules = Rules(EventOrder[table.event_order.upper()], dependencies=table.dependencies)
    executables = None if table.profiles is None else read_profiles(folder / table.profiles)
    return Replay(workload, platform, rules, table.kill_at_limit, executables)


def _task_replay(folder: Path, table: TraceModel) -> TaskReplay:
    """Read jobs of tasks, and their multicore machine."""
    assert table.platform is not None
    _check_left_out(table, ONE_POOL, "does not go with platform")
    machine = read_machine(folder / table.platform, None if table.types is None else folder / table.types)
    jobs = read_irmasim(folder / table.file)
    jobs = jobs if table.max_jobs is None else jobs.first(table.max_jobs)
    how = Execution(ExecutionKind(table.execution), table.sharing, bool(table.kill_at_limit))
    check_jobs(machine, jobs, np.full(len(jobs), IDLE))
    return TaskReplay(replace(jobs, name=table.name or jobs.name), machine, how)


def _check_left_out(table: TraceModel, keys: Sequence[str], fault: str) -> None:
    """Raise `UsageError` for a key that says nothing here."""
    for key in keys:
        if key in table.model_fields_set:
            raise UsageError(f"{key} {fault}")


def _beside(folder: Path, name: str) -> Path:
    """Return a file beside the sweep file; a name that is no file there may be a trace that was fetched."""
    return folder / name if (folder / name).exists() or Path(name).name != name else Path(name)


def _columns(folder: Path, text: str | None) -> Columns | None:
    """Return what the columns of a table mean; None where nothing is said."""
    if text is None:
        return None
    return Columns.parse(str(folder / text) if text.endswith(".toml") else text)


def _topology(folder: Path, table: TraceModel) -> Topology | None:
    """Return how the nodes are connected, if the table says."""
    sizes = [key for key in ("processors", "fat_tree", "topology") if getattr(table, key) is not None]
    if len(sizes) > 1:
        raise UsageError(f"{' and '.join(sizes)} both say how large the machine is: give one")
    if table.topology is not None:
        return read_topology(folder / table.topology, table.labels or ()).tree
    if table.fat_tree is None:
        return None
    pods, leaves_per_pod, nodes_per_leaf = table.fat_tree
    return FatTree(pods, leaves_per_pod, nodes_per_leaf)


def _platform(workload: Workload, table: TraceModel, topology: Topology | None) -> Platform:
    """Return the machine that the table or the trace names."""
    if topology is not None:
        return Platform.whole_nodes(topology)
    per_node = table.processors_per_node
    size = workload.machine_processors if table.processors is None else table.processors // per_node
    if table.processors is not None and not size:
        raise UsageError(f"processors = {table.processors} are less than one node of {per_node}")
    if not size:
        raise BadFileError(f"{workload.name} does not say how large its machine is: give processors")
    return Platform.pool(size) if per_node == 1 else Platform.pool(size, NODES)


def _check_fits(workload: Workload, platform: Platform) -> None:
    """Raise `BadFileError` unless there are jobs, each of which fits."""
    if not len(workload):
        raise BadFileError(f"{workload.name} holds no jobs")
    largest = int(workload.processors.argmax())
    asked = int(workload.processors[largest])
    if asked > platform.size:
        job = workload.ids[largest]
        fault = f"job {job} asks for {asked} {platform.resources[0]}, the machine has {platform.size}"
        raise BadFileError(f"{workload.name}: {fault}; skip_oversized = true drops such jobs")


def _replay_digest(replay: Replay, table: TraceModel) -> str:
    """Digest of the jobs, the machine and the rules."""
    machine = [replay.platform.size, table.processors_per_node, topology_digest(replay.platform.topology)]
    # Killing that is asked for also holds for jobs that share cores.
    kills = table.kill_at_limit is None or ("always" if table.kill_at_limit else False)
    parts: list[object] = [workload_digest(replay.workload), machine, [table.event_order, kills, table.dependencies]]
    return digest(parts if table.profiles is None else [*parts, repr(replay.executables)])


def _task_digest(replay: TaskReplay) -> str:
    """Digest of the jobs, the machine and how jobs run."""
    columns = [getattr(replay.workload, field.name) for field in fields(replay.workload)]
    return digest(
        [repr([np.asarray(column).tolist() for column in columns]), repr((replay.platform, replay.execution))]
    )
