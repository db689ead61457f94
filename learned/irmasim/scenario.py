"""Machine and jobs by name: those of the paper, or files."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from allocopt.cluster.irmasim import heterogeneous, homogeneous
from allocopt.cluster.multicore import Machine
from allocopt.errors import UsageError
from allocopt.traces.npb import npb_batch
from allocopt.traces.tasks import TaskWorkload

HETEROGENEOUS, HOMOGENEOUS = "heterogeneous", "homogeneous"
SUBSET = (
    "first-high_gflops",
    "first-high_cores",
    "first-low_power",
    "low_mem_bw-high_gflops",
    "low_mem_bw-high_cores",
    "low_mem_bw-low_power",
)
"""The small subset of policies among which agents choose, where nothing else is said."""
ALL = "all"
PAPERS: Mapping[str, Machine] = MappingProxyType({HETEROGENEOUS: heterogeneous(), HOMOGENEOUS: homogeneous()})
"""The clusters on which IRMaSim was validated."""


def machine_of(platform: str, types: str = "") -> Machine:
    """Return one of `PAPERS`, or read a platform file; ``types`` is a library's folder for types that it leaves out.

    Raises `UsageError` if it is neither, `BadFileError` if the file is not right.
    """
    if platform in PAPERS:
        return PAPERS[platform]
    if not Path(platform.partition("#")[0]).exists():
        known = ", ".join(PAPERS)
        raise UsageError(f"there is no platform {platform!r}; it must be one of {known}, or a file")
    from allocopt.cluster.reading import read_machine

    return read_machine(platform, types or None)


def jobsets_of(trace: str, jobs: int, batch: int) -> tuple[TaskWorkload, ...]:
    """Read workloads of tasks, separated by commas; where none is named, draw NPB jobs by the seed ``batch``."""
    if not trace:
        return (npb_batch(jobs, np.random.default_rng(batch)),)
    from allocopt.traces.irmasim import read_irmasim

    return tuple(read_irmasim(path) for path in trace.split(","))


def policies_of(names: str) -> tuple[str, ...] | None:
    """Return names of policies that are separated by commas, `SUBSET` where it is empty; None for all."""
    if names == ALL:
        return None
    return tuple(names.split(",")) if names else SUBSET
