"""Locality: how much longer a job takes, by its workload type, the allocation policy and the GPUs that it requests.

The penalties follow CuSH (Domeniconi, Lee and Morari, DRL4KDD 2019), section 3.1: service time = requested time +
penalty. The penalty is a linear function of the requested GPUs, for each workload type and allocation policy. The
coefficients are those of the package, are fitted to measured jobs, or are replaced by measured throughputs.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.csv_rows import csv_rows
from allocopt.files.faults import bad_file, problem_faults_named, shown
from allocopt.files.models import VERSION, FileModel, check_header, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.simulator.execution import Change
from allocopt.simulator.held_nodes import Allocator, BreadthFirst, DepthFirst, Share


class _Named(IntEnum):
    @property
    def label(self) -> str:
        """Name in files."""
        return self.name.lower().replace("_", "-")


class WorkloadType(_Named):
    """Resource that limits the speed of a job."""

    COMPUTE = 0  # computation, for example dgemm, a matrix product: faster on few nodes
    NETWORK = 1  # the network, for example daxpy, a sum of vectors: faster on many nodes
    UNKNOWN = 2  # counts as the mean of the other two


class Policy(_Named):
    """Whether a job is placed on as few nodes as possible, or on as many as possible."""

    DEPTH_FIRST = 0
    BREADTH_FIRST = 1


_ALLOCATORS: dict[Policy, Allocator] = {Policy.DEPTH_FIRST: DepthFirst(), Policy.BREADTH_FIRST: BreadthFirst()}

_FORMAT = "allocopt-locality"
_WORKLOADS = {kind.label: kind for kind in WorkloadType}
_POLICIES = {policy.label: policy for policy in Policy}


class _LineModel(FileModel):
    workload: Literal["compute", "network", "unknown"]
    policy: Literal["depth-first", "breadth-first"]
    base_s: float
    per_gpu_s: float


class _TableModel(FileModel):
    format: Literal["allocopt-locality"]
    version: int
    lines: list[_LineModel]


@dataclass(frozen=True, slots=True)
class Line:
    """A penalty that is linear in the requested GPUs."""

    base: float
    per_gpu: float  # penalty of each GPU

    def at(self, gpus: IntArray) -> FloatArray:
        """Return the penalties of jobs that request these numbers of GPUs."""
        return self.base + self.per_gpu * gpus.astype(np.float64)


@dataclass(frozen=True, slots=True)
class PenaltyTable:
    """The coefficients of the model: a line for every workload type and policy, in any unit of time.

    Lines of ``UNKNOWN`` may be left out; the default is the mean of the two other types. Raises `InvalidProblemError`
    if a line is missing or not finite.
    """

    lines: Mapping[tuple[WorkloadType, Policy], Line]

    def __post_init__(self) -> None:
        lines = dict(self.lines)
        for policy in Policy:
            known = (lines.get((kind, policy)) for kind in (WorkloadType.COMPUTE, WorkloadType.NETWORK))
            given = [(line.base, line.per_gpu) for line in known if line is not None]
            if given:
                lines.setdefault((WorkloadType.UNKNOWN, policy), Line(*np.mean(given, axis=0).tolist()))
        for kind, policy in product(WorkloadType, Policy):
            place, line = f"locality of {kind.label} jobs, {policy.label}", lines.get((kind, policy))
            if line is None:
                raise InvalidProblemError(place, "no line is given")
            if not np.isfinite([line.base, line.per_gpu]).all():
                raise InvalidProblemError(place, f"is {line.base} + {line.per_gpu} per GPU, must be finite")
        object.__setattr__(self, "lines", lines)

    @classmethod
    def read(cls, path: Path | str) -> "PenaltyTable":
        """Read coefficients, in seconds; raise `BadFileError` if the file cannot be read or is wrong."""
        path = Path(path)
        model = validated(_TableModel, check_header(parse_json(read_text(path), path), path, _FORMAT), path)
        lines: dict[tuple[WorkloadType, Policy], Line] = {}
        for number, one in enumerate(model.lines):
            key = _WORKLOADS[one.workload], _POLICIES[one.policy]
            if key in lines:
                raise bad_file(path, f"lines[{number}]", f"is a second line for {one.workload} jobs, {one.policy}")
            lines[key] = Line(one.base_s, one.per_gpu_s)
        with problem_faults_named(path):
            return cls(lines)

    def write(self, path: Path | str) -> None:
        """Write coefficients, which must be in seconds; raise `BadFileError` if the file cannot be written."""
        lines = [
            {"workload": kind.label, "policy": policy.label, "base_s": line.base, "per_gpu_s": line.per_gpu}
            for (kind, policy), line in sorted(self.lines.items())
        ]
        write_text(Path(path), json_by_line({"format": _FORMAT, "version": VERSION, "lines": lines}))

    def in_unit(self, unit_s: float) -> "PenaltyTable":
        """Return the table, converted from seconds to units of ``unit_s`` seconds."""
        if not unit_s > 0:
            raise UsageError(f"the unit of time is {unit_s} s, must be positive")
        lines = {key: Line(line.base / unit_s, line.per_gpu / unit_s) for key, line in self.lines.items()}
        return PenaltyTable(lines)

    def penalties(self, kinds: IntArray, gpus: IntArray) -> FloatArray:
        """Return the penalties of jobs under each policy, shape ``(n, 2)``, from their workload types and GPUs."""
        penalties = np.zeros((len(kinds), len(Policy)))
        for (kind, policy), line in self.lines.items():
            chosen = kinds == kind
            penalties[chosen, policy] = line.at(gpus[chosen])
        return penalties


@dataclass(frozen=True, slots=True)
class Penalised:
    """Every job takes longer by its own penalty, or by its penalty under the policy that was chosen for it.

    Raises `InvalidProblemError` if a penalty would make a job end before it starts.
    """

    run: FloatArray  # requested times of the jobs in seconds, shape ``(n,)``
    # Penalties in seconds, may be negative: shape ``(n,)``, or ``(n, 2)`` for each policy.
    penalty_s: FloatArray
    # The policy of each job, by its number as text, known at the latest when the job starts; None if penalties do not
    # depend on policies.
    policies: Mapping[str, Policy] | None = None

    def __post_init__(self) -> None:
        if (self.penalty_s.T <= -self.run).any():
            raise InvalidProblemError("locality", "a penalty leaves no run time")

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        for job in change.started.tolist():
            penalty = self.penalty_s[job] if self.policies is None else self.penalty_s[job, self.policies[str(job)]]
            yield job, float(self.run[job] / (self.run[job] + penalty))


@dataclass(frozen=True, slots=True)
class ByPolicy(Allocator):
    """An allocator that places every job by its own policy, which must be known when the job starts."""

    policies: Mapping[str, Policy]  # by the number of the job, as text

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        left, shares = free.copy(), []
        for name, asked in zip(names, request, strict=True):
            (share,) = _ALLOCATORS[self.policies[name]].place([name], asked[np.newaxis], left)
            left[share.nodes] -= share.units
            shares.append(share)
        return shares


SIERRA_TABLE = PenaltyTable(
    {
        (WorkloadType.COMPUTE, Policy.DEPTH_FIRST): Line(0.2, 0.0001),
        (WorkloadType.COMPUTE, Policy.BREADTH_FIRST): Line(1.5, 0.01),
        (WorkloadType.NETWORK, Policy.DEPTH_FIRST): Line(3.0, 0.0023),
        (WorkloadType.NETWORK, Policy.BREADTH_FIRST): Line(0.5, 0.0016),
    }
)
"""The package's coefficients, in timesteps: the penalty of a job without GPUs, and that of each requested GPU.

The paper prints no numbers (its Figure 2 is a picture). These are not measurements: they were fitted, only on training
job sets, to NTAT, waits and rewards of both machines in Table 1; see docs/cush.md. Fit your own with
``allocopt calibrate locality``.
"""
# Largest request of the paper's job sets as a share of the cluster, chosen together with the coefficients.
SHARE = 0.47

_SPREAD, _ALONE = "_unconsolidated", "null"
_JOB = re.compile(r"\('(?P<name>[^']*?(?: \(batch size \d+\))?)', (?P<gpus>\d+)\)")
# log2 of the batch size that counts as 1.
_LOG_BATCH = 13.0


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """A job's slowdown by number of GPUs and policy."""

    gpus: IntArray  # numbers of GPUs with which it was measured, in increasing order, shape ``(k,)``
    slowdown: FloatArray  # time under each `Policy` over the shorter of both times, shape ``(k, 2)``

    def at(self, gpus: IntArray) -> FloatArray:
        """Return slowdowns, shape ``(n, 2)``: linear in log2 of the GPUs between measurements, constant beyond them."""
        measured, asked = np.log2(self.gpus), np.log2(np.maximum(gpus, 1))
        lines = np.stack([np.interp(asked, measured, self.slowdown[:, policy]) for policy in Policy], axis=1)
        return np.asarray(lines / lines.min(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """The measured locality model: throughputs of deep-learning jobs on one server, and spread over several.

    The file is that of the Gavel scheduler (Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia,
    "Heterogeneity-aware cluster scheduling policies for deep learning workloads", OSDI 2020). For each GPU type, it has
    the throughput of every job that runs alone on 1, 2, 4 or 8 GPUs of one server. The entry whose name ends with
    ``_unconsolidated`` has the throughputs on GPUs of several servers. The file is not part of the package.
    """

    curves: Mapping[str, Mapping[str, _Curve]]  # the curve of each job on each GPU type, by type and name

    @classmethod
    def read(cls, path: Path | str) -> "Measurements":
        """Read throughputs; see `Measurements`.

        A number of GPUs is left out if a job was not measured with it both on one server and spread over several. A job
        is left out if no number above 1 remains. Raises `BadFileError` if the file cannot be read or does not
        hold throughputs.
        """
        path = Path(path)
        found = parse_json(read_text(path), path)
        if not isinstance(found, dict):
            raise bad_file(path, "top level", f"is {shown(found)}, must be an object")
        types = sorted(name for name in found if f"{name}{_SPREAD}" in found)
        if not types:
            raise bad_file(path, f"holds no GPU type with its {_SPREAD!r} counterpart")
        throughputs = {name: _throughputs(path, name, found[name]) for name in types}
        others = {name: _throughputs(path, name + _SPREAD, found[name + _SPREAD]) for name in types}
        curves: dict[str, dict[str, _Curve]] = {name: {} for name in types}
        for gpu_type in types:
            packed, spread = throughputs[gpu_type], others[gpu_type]
            both = sorted(key for key in packed if packed[key] > 0 and spread.get(key, 0.0) > 0 and key[1] > 1)
            for name in sorted({name for name, _ in both}):
                counts = [gpus for job, gpus in both if job == name]
                times = np.array([[1 / packed[name, gpus], 1 / spread[name, gpus]] for gpus in counts])
                # One GPU is on one server under both policies.
                slowdown = np.concatenate([np.ones((1, len(Policy))), times / times.min(axis=1, keepdims=True)])
                curves[gpu_type][name] = _Curve(np.array([1, *counts]), slowdown)
        return cls(curves)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Measured GPU types."""
        return tuple(sorted(self.curves))

    def jobs(self, gpu_type: str) -> tuple[str, ...]:
        """Return the jobs that were measured on a GPU type; raise `UsageError` if there is no such type."""
        if gpu_type not in self.curves:
            raise UsageError(f"GPU {gpu_type!r} was not measured; measured are {', '.join(self.gpu_types)}")
        return tuple(sorted(self.curves[gpu_type]))

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the jobs without their batch sizes."""
        return tuple(sorted({_parts(name)[0] for jobs in self.curves.values() for name in jobs}))

    def service(self, gpu_type: str, names: Sequence[str], length: FloatArray, gpus: IntArray) -> FloatArray:
        """Return the service times of jobs under each `Policy`, shape ``(n, 2)``; the shorter one is ``length``."""
        rows = [self.curves[gpu_type][name].at(gpus[[job]])[0] for job, name in enumerate(names)]
        return np.asarray(length[:, np.newaxis] * np.array(rows).reshape(len(names), len(Policy)))

    def traits(self, gpu_type: str, names: Sequence[str]) -> FloatArray:
        """Return features of jobs within 0 .. 1: one-hot family, log2 of the batch size over 13, one-hot GPU type."""
        types, families = [float(gpu_type == known) for known in self.gpu_types], self.families
        rows = []
        for family, batch in map(_parts, names):
            size = min(1.0, np.log2(batch) / _LOG_BATCH)
            rows.append([*(float(family == known) for known in families), size, *types])
        return np.array(rows)


_Throughputs = dict[tuple[str, int], float]


def _throughputs(path: Path, place: str, jobs: object) -> _Throughputs:
    if not isinstance(jobs, dict):
        raise bad_file(path, place, f"is {shown(jobs)}, must be an object")
    found = {}
    for key, partners in jobs.items():
        match = _JOB.fullmatch(key)
        if match is None:
            raise bad_file(path, place, f"{shown(key)} is not a job, must look like \"('LM (batch size 5)', 2)\"")
        alone = partners.get(_ALONE) if isinstance(partners, dict) else None
        if not isinstance(alone, int | float) or isinstance(alone, bool) or alone < 0:
            raise bad_file(path, place, key, f"{_ALONE} is {shown(alone)}, must be a throughput")
        found[match["name"], int(match["gpus"])] = float(alone)
    return found


def _parts(name: str) -> tuple[str, int]:
    """Split the name of a job into its family and its batch size."""
    family, _, rest = name.partition(" (batch size ")
    return family, int(rest[:-1]) if rest else 1


# Columns of measured jobs; others are ignored.
_MEASURED = ("workload", "policy", "gpus", "requested_s", "service_s")
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured run of a job."""

    workload: WorkloadType
    policy: Policy
    gpus: int
    # Requested time and measured time in seconds.
    requested_s: float
    service_s: float

    @classmethod
    def read(cls, path: Path | str) -> "list[Measured]":
        """Read measured jobs from a CSV file, plain or compressed (``.gz``).

        Its columns are ``workload`` (compute, network, unknown), ``policy`` (depth-first, breadth-first), ``gpus``,
        ``requested_s`` and ``service_s``. Raises `BadFileError` if the file cannot be read, or a row is wrong; it names
        line and column.
        """
        path = Path(path)
        return [
            cls(
                _choice(path, place, row, "workload", _WORKLOADS),
                _choice(path, place, row, "policy", _POLICIES),
                int(_number(path, place, row, "gpus")),
                _number(path, place, row, "requested_s"),
                _number(path, place, row, "service_s"),
            )
            for place, row in csv_rows(path, _MEASURED, "jobs")
        ]


@dataclass(slots=True)
class TypeClassifier:
    """Records runs of applications, and determines which workload type in a table fits them best."""

    # The locality model, in seconds; and the runs needed to classify an application, at least 1.
    table: PenaltyTable
    runs: int = 3
    _seen: dict[str, list[Measured]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, application: str, run: Measured) -> None:
        """Record a run; its workload type is ignored."""
        self._seen[application].append(run)

    def type_of(self, application: str) -> WorkloadType:
        """Return the type with the least squared error of the penalties; unknown if there are too few runs."""
        seen = self._seen.get(application, [])
        if len(seen) < self.runs:
            return WorkloadType.UNKNOWN

        def squares(kind: WorkloadType) -> float:
            lines = [self.table.lines[kind, run.policy].at(np.array([run.gpus]))[0] for run in seen]
            penalties = [run.service_s - run.requested_s for run in seen]
            return float(np.square(np.subtract(penalties, lines)).sum())

        return min((WorkloadType.COMPUTE, WorkloadType.NETWORK), key=squares)


def _choice(path: Path, place: str, row: Mapping[str, str], name: str, known: Mapping[str, _Kind]) -> _Kind:
    cell = row[name].strip()
    if cell not in known:
        raise bad_file(path, place, f"{name} is {shown(cell)}, must be one of {', '.join(known)}")
    return known[cell]


def _number(path: Path, place: str, row: Mapping[str, str], name: str) -> float:
    cell, is_count = row[name].strip(), name == "gpus"
    try:
        number = float(cell)
    except ValueError:
        number = np.nan
    if not (0 <= number <= 2.0**53 and (number.is_integer() if is_count else number > 0)):
        right = "a whole number within 0 .. 2^53" if is_count else "a number of seconds, more than 0 and at most 2^53"
        raise bad_file(path, place, f"{name} is {shown(cell)}, must be {right}")
    return number
