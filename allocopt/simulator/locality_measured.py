"""The measured locality model: throughputs of deep-learning jobs on one server and spread over several.

The file is the one of the Gavel scheduler (Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia,
"Heterogeneity-aware cluster scheduling policies for deep learning workloads", OSDI 2020): for each GPU type, and for
the type with ``_unconsolidated`` after it, the throughput of every job alone on 1, 2, 4 or 8 GPUs. It is read at run
time and does not come with the package.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json, read_text
from allocopt.simulator.locality import Policy

SPREAD = "_unconsolidated"
ALONE = "null"
_JOB = re.compile(r"\('(?P<name>(?P<family>[^']*?)(?: \(batch size (?P<batch>\d+)\))?)', (?P<gpus>\d+)\)")
LOG_BATCH = 13.0
"""Doublings of a batch of one that count as 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """How a job's speed depends on where it is put.

    Parameters
    ----------
    gpus
        Numbers of GPUs with which it was measured, rising, shape ``(k,)``.
    slowdown
        Times it takes under each `Policy` over the shorter of the two, shape ``(k, 2)``.
    """

    gpus: IntArray
    slowdown: FloatArray

    def at(self, gpus: IntArray) -> FloatArray:
        """Slowdown with so many GPUs, shape ``(n, 2)``: linear in log2 between measurements, constant beyond them.

        Where the better policy changes in between, both lines are above 1; they are scaled so that the lower one is 1.
        """
        measured, asked = np.log2(self.gpus), np.log2(np.maximum(gpus, 1))
        lines = np.stack([np.interp(asked, measured, self.slowdown[:, policy]) for policy in Policy], axis=1)
        slowdown: FloatArray = lines / lines.min(axis=1, keepdims=True)
        return slowdown


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """What was measured.

    Parameters
    ----------
    curves
        The curve of each job on each GPU type, by type and name.
    """

    curves: Mapping[str, Mapping[str, Curve]]

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """GPU types that were measured."""
        return tuple(sorted(self.curves))

    def jobs(self, gpu_type: str) -> tuple[str, ...]:
        """Jobs that were measured on a GPU type.

        Raises
        ------
        UsageError
            If there is no such type.
        """
        if gpu_type not in self.curves:
            raise UsageError(f"no GPU {gpu_type!r} was measured; there are {', '.join(self.gpu_types)}")
        return tuple(sorted(self.curves[gpu_type]))

    @property
    def families(self) -> tuple[str, ...]:
        """Jobs without their batch sizes."""
        return tuple(sorted({_family(name) for jobs in self.curves.values() for name in jobs}))

    def service(self, gpu_type: str, names: Sequence[str], length: FloatArray, gpus: IntArray) -> FloatArray:
        """Return how long jobs take under each `Policy`, shape ``(n, 2)``.

        Parameters
        ----------
        gpu_type
            What they run on.
        names
            Which jobs they are.
        length
            Times that they take under the better policy, shape ``(n,)``.
        gpus
            GPUs that they ask for, shape ``(n,)``.
        """
        curves = self.curves[gpu_type]
        rows = [curves[name].at(gpus[[job]])[0] for job, name in enumerate(names)]
        service: FloatArray = length[:, np.newaxis] * np.array(rows).reshape(len(names), len(Policy))
        return service

    def traits(self, gpu_type: str, names: Sequence[str]) -> FloatArray:
        """Describe jobs: their family, log2 of the batch size over 13, and the GPU type, all within 0 .. 1."""
        families = [[float(_family(name) == family) for family in self.families] for name in names]
        batches = [[min(1.0, np.log2(_batch(name)) / LOG_BATCH)] for name in names]
        types = [[float(gpu_type == known) for known in self.gpu_types] for _ in names]
        return np.concatenate([families, batches, types], axis=1)


def read_measurements(path: Path | str) -> Measurements:
    """Read throughputs.

    Jobs that were not measured both on one server and spread over several, with several GPUs, are left out; so is a
    number of GPUs with which the job did not run.

    Raises
    ------
    BadFileError
        If the file cannot be read or does not hold throughputs.
    """
    path = Path(path)
    found = parse_json(read_text(path), path)
    if not isinstance(found, dict):
        raise bad_file(path, "top level", f"is {shown(found)}, must be an object")
    types = sorted(name for name in found if f"{name}{SPREAD}" in found)
    if not types:
        raise bad_file(path, f"holds no GPU type with its {SPREAD!r} counterpart")
    packed = {name: _throughputs(path, name, found[name]) for name in types}
    spread = {name: _throughputs(path, name + SPREAD, found[name + SPREAD]) for name in types}
    return Measurements(MappingProxyType({name: _curves(packed[name], spread[name]) for name in types}))


Throughputs = dict[tuple[str, int], float]


def _throughputs(path: Path, place: str, jobs: object) -> Throughputs:
    if not isinstance(jobs, dict):
        raise bad_file(path, place, f"is {shown(jobs)}, must be an object")
    return dict(_entries(path, place, jobs))


def _entries(path: Path, place: str, jobs: Mapping[str, object]) -> Iterator[tuple[tuple[str, int], float]]:
    """Yield names and numbers of GPUs with throughputs."""
    for key, partners in jobs.items():
        match = _JOB.fullmatch(key)
        if match is None:
            raise bad_file(path, place, f"{shown(key)} is no job, must be like \"('LM (batch size 5)', 2)\"")
        alone = partners.get(ALONE) if isinstance(partners, dict) else None
        if not isinstance(alone, int | float) or isinstance(alone, bool) or alone < 0:
            raise bad_file(path, place, key, f"{ALONE} is {shown(alone)}, must be a throughput")
        yield (match["name"], int(match["gpus"])), float(alone)


def _curves(packed: Throughputs, spread: Throughputs) -> Mapping[str, Curve]:
    both = sorted(key for key in packed if packed[key] > 0 and spread.get(key, 0.0) > 0 and key[1] > 1)
    curves = {}
    for name in sorted({name for name, _ in both}):
        counts = [gpus for job, gpus in both if job == name]
        times = np.array([[1 / packed[name, gpus], 1 / spread[name, gpus]] for gpus in counts])
        # One GPU is on one server whatever the policy.
        slowdown = np.concatenate([np.ones((1, len(Policy))), times / times.min(axis=1, keepdims=True)])
        curves[name] = Curve(np.array([1, *counts]), slowdown)
    return MappingProxyType(curves)


def _family(name: str) -> str:
    return name.partition(" (batch size ")[0]


def _batch(name: str) -> int:
    rest = name.partition(" (batch size ")[2]
    return int(rest[:-1]) if rest else 1
