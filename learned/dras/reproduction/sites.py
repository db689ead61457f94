"""The machines of the comparisons, their traces, and the jobs that no training has seen."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from allocopt.files.faults import bad_file
from allocopt.reproduction import ReproductionRequest
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from learned.dras.jobsets import DAY_S, EVALUATION_LOAD, EVALUATION_SEEDS, WEEK_DAYS, SyntheticModel, cut, split_of

QUICK_WEEKS = 2
"""Weeks of a held-out span, and synthetic weeks, that a quick run looks at."""

HELD_OUT, SYNTHETIC = "held-out", "synthetic"
JOBSETS = (HELD_OUT, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Site:
    """A machine and its trace.

    Parameters
    ----------
    name
        Name of the machine.
    weights
        Name of the weights that are shipped for it.
    trace
        The file in the folder with the data.
    processors
        Size of the machine.
    objective
        Of Optimization: ``capability`` (Eq. 1) or ``capacity`` (Eq. 2).
    classes
        Least sizes of the classes that jobs are sorted into, rising.
    """

    name: str
    weights: str
    trace: str
    processors: int
    objective: str
    classes: tuple[int, ...]

    @property
    def trace_name(self) -> str:
        """Name of the file without its ending."""
        return Path(self.trace).name.split(".swf")[0]


THETA = Site("Theta", "theta", "traces/Theta-2018-01.swf.gz", 4_360, "capability", (1, 256, 512, 1_024, 2_048))
SDSC_SP2 = Site("SDSC-SP2", "sdsc-sp2", "traces/SDSC-SP2-1998-4.2-cln.swf.gz", 128, "capacity", (1, 2, 8, 32, 64))
SITES = {site.name: site for site in (THETA, SDSC_SP2)}


def trace_of(site: Site, request: ReproductionRequest) -> Workload:
    """Read a trace, without jobs larger than the machine; raises `BadFileError` where it is missing or cut."""
    path = request.data / site.trace
    workload = read_workload(path).fitting(site.processors)
    days = float(workload.submit.max()) / DAY_S if len(workload) else 0.0
    if days < 3 * WEEK_DAYS:
        raise bad_file(path, f"holds {days:.0f} days of jobs, must hold three weeks at least")
    return workload


def held_out_jobs(site: Site, request: ReproductionRequest) -> tuple[Workload, ...]:
    """Return the jobs of the held-out days, all together."""
    jobs = split_of(trace_of(site, request)).evaluation()
    if request.is_quick:
        first = jobs.submit < QUICK_WEEKS * WEEK_DAYS * DAY_S
        jobs = cut(jobs, first.nonzero()[0], 0.0, jobs.name)
    return (jobs,)


def synthetic_weeks(site: Site, request: ReproductionRequest) -> tuple[Workload, ...]:
    """Return the synthetic weeks that evaluations own, drawn by what the training days tell."""
    model = SyntheticModel.fitted(split_of(trace_of(site, request)).training(), site.processors)
    seeds = EVALUATION_SEEDS[:QUICK_WEEKS] if request.is_quick else EVALUATION_SEEDS
    return tuple(model.week(seed, 0, EVALUATION_LOAD) for seed in seeds)


_MAKERS: dict[str, Callable[[Site, ReproductionRequest], tuple[Workload, ...]]] = {
    HELD_OUT: held_out_jobs,
    SYNTHETIC: synthetic_weeks,
}


def jobsets_of(site: Site, kind: str, request: ReproductionRequest) -> tuple[Workload, ...]:
    """Return the jobsets of a kind, one of `JOBSETS`."""
    return _MAKERS[kind](site, request)
