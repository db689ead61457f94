"""Which application each job of a trace runs, and the profile of each application."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from allocopt.errors import InvalidProblemError
from allocopt.traces.applications import APPLICATIONS
from allocopt.traces.asax_queue import QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind, check_profile
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Executable:
    """An application.

    Parameters
    ----------
    name
        Its name.
    profile
        Its stages; a sequential one keeps one core busy, however many the job has.

    Raises
    ------
    InvalidProblemError
        If these are not the stages of a job.
    """

    name: str
    profile: tuple[Stage, ...]

    def __post_init__(self) -> None:
        check_profile(f"profile of {self.name}", self.profile)

    def on(self, cores: int) -> tuple[Stage, ...]:
        """Return the stages of a job of so many cores."""
        one_core = 1.0 / cores
        return tuple(
            replace(stage, cpu=one_core) if stage.kind is StageKind.SEQUENTIAL else stage for stage in self.profile
        )


Executables = Mapping[int, Executable]
"""Applications by the numbers that they have in a trace."""

WORKFLOWS: Executables = MappingProxyType(
    {number: Executable(name, one.profile(1)) for number, (name, one) in enumerate(APPLICATIONS.items(), 1)}
)
"""Montage, BLAST, Statistics and Synthetic, numbered from 1; see `allocopt.traces.applications`."""


def profiled_jobs(workload: Workload, executables: Executables) -> tuple[QueuedJob, ...]:
    """Return the jobs of a workload with the profiles of their applications, in its order.

    Raises
    ------
    InvalidProblemError
        If there is no profile of a job's application; it names the job.
    """
    jobs = []
    rows = zip(workload.ids.tolist(), workload.executables.tolist(), workload.processors.tolist(), strict=True)
    times = zip(workload.submit.tolist(), workload.run.tolist(), workload.estimate.tolist(), strict=True)
    for (job, number, cores), (submit, run, estimate) in zip(rows, times, strict=True):
        if number not in executables:
            known = ", ".join(f"{number} {one.name}" for number, one in executables.items())
            fault = f"its executable is {number}, there are profiles of {known}; --profiles names a table of others"
            raise InvalidProblemError(f"job {job}", fault)
        one = executables[number]
        jobs.append(QueuedJob(one.name, submit, ProfiledJob(str(job), cores, one.on(cores), run, estimate)))
    return tuple(jobs)
