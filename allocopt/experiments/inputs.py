"""Instances and traces that a sweep file names, with digests of their contents; paths are relative to the file."""

from collections.abc import Sequence
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.cells import digest
from allocopt.experiments.description import InstancesModel, TraceModel, placed
from allocopt.experiments.simulations import SimulationInputs
from allocopt.experiments.specs import SimulationSpec
from allocopt.problems.base import Problem
from allocopt.problems.instances import object_from_problem, read_instances
from allocopt.traces.workload import COLUMNS, Workload

# What a row depends on beside jobs and machine.
_RULES = ("event_order", "kill_at_limit", "dependencies", "exact_estimates", "execution", "sharing")


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
            named = dict.fromkeys(table.paths(path.parent))
            for problem in read_instances([file for file in named if file not in read]):
                if problem.name in problems:
                    raise UsageError(f"{problem.name!r} is the name of an instance of another table too")
                problems[problem.name] = problem
            read.update(named)
    return list(problems.values())


def trace_of(path: Path, table: TraceModel) -> tuple[SimulationSpec, SimulationInputs, str]:
    """Read a trace and its machine; return them with a specification that lacks a policy, and a digest of all.

    Raises
    ------
    BadFileError
        If a file is missing or wrong, or a job does not fit the machine.
    FieldError
        If fields do not go together.
    """
    setting = {"trace": table.file, **table.model_dump(exclude_unset=True, exclude={"file", "name"})}
    spec = SimulationSpec(**SimulationSpec.seen_from_here(setting, path.parent))
    inputs = SimulationInputs.of(spec)
    jobs, machine = inputs.workload, inputs.machine
    # Contents, not files: an input may be moved, compressed or written anew, and its rows still count.
    how: list[object] = [getattr(spec, name) for name in _RULES]
    if isinstance(jobs, Workload) and isinstance(machine, Platform):
        _check_fits(jobs, machine)
        content = [workload_digest(jobs), machine.size, spec.processors_per_node, topology_digest(machine.topology)]
        digested = digest([*content, *how, repr(inputs.executables)])
    else:
        columns = [np.asarray(getattr(jobs, field.name)).tolist() for field in fields(jobs)]
        digested = digest([repr(columns), repr(machine), *how])
    if table.name is not None:
        inputs = replace(inputs, workload=replace(jobs, name=table.name))
    return spec, inputs, digested


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
