"""The outcome of a simulation as a flat row, as ``--json`` and CSV files hold it."""

from dataclasses import asdict, dataclass
from typing import Any

from allocopt.simulator.metrics import Metrics
from allocopt.simulator.schedule import Schedule


@dataclass(frozen=True, slots=True)
class SimulateRow:
    """One simulation.

    Parameters
    ----------
    jobs
        Number of jobs measured.
    mean_wait_s, max_wait_s
        Waits in seconds.
    mean_bounded_slowdown
        Mean of ``max(1, (wait + run) / max(run, 10 s))``.
    utilization
        Share of the machine's processor-seconds that jobs held.
    makespan_s
        Seconds from the first submission to the last end.
    runtime_s
        Seconds of wall clock that the simulation took, reading and measuring not counted.
    jobs_per_s
        Jobs simulated per second of wall clock.
    """

    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    utilization: float
    makespan_s: float
    runtime_s: float
    jobs_per_s: float

    @classmethod
    def of(cls, schedule: Schedule, metrics: Metrics, runtime_s: float) -> "SimulateRow":
        """Flatten the metrics of a schedule whose simulation took a time."""
        jobs, machine = metrics.jobs, metrics.machine
        return cls(
            jobs.jobs,
            jobs.wait_s.mean,
            jobs.wait_s.maximum,
            jobs.bounded_slowdown.mean,
            machine.utilization,
            machine.makespan_s,
            runtime_s,
            # No clock ticks more often than once a nanosecond.
            len(schedule.workload) / max(runtime_s, 1e-9),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)
