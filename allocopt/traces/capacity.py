"""Synthetic jobs of a capacity machine, drawn from the trace of another machine.

A capacity machine runs very many jobs, most of one or a few nodes. For some such machines only the number of nodes, the
number of jobs and the longest job are published. Each synthetic job copies size, run time and estimate of one job of a
real trace, so that the three stay related as in the trace. Jobs arrive as often as published, distributed over the
hours of the week as in the trace.
"""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.weekly_cycle import DAY_S, arrivals, weekly_cycle
from allocopt.traces.workload import Workload

MOST_TILT = 8.0
"""Greatest exponent that is tried for a load; with it, nearly all jobs have the trace's smallest size."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class CapacityMachine:
    """Published numbers of a capacity machine, and the load of its synthetic workload.

    Raises `UsageError` if a number is not positive.

    Parameters
    ----------
    nodes
        Number of nodes.
    jobs_per_day
        Mean number of jobs that arrive on a day.
    longest_days
        Longest run time of a job, in days.
    load
        Node seconds of the jobs that arrive per second, divided by the number of nodes. It is chosen, not published.
    """

    nodes: int
    jobs_per_day: float
    longest_days: float
    load: float

    def __post_init__(self) -> None:
        for name in ("nodes", "jobs_per_day", "longest_days", "load"):
            if not 0 < getattr(self, name) < np.inf:
                raise UsageError(f"{name} is {getattr(self, name)}, must be positive")


@dataclass(frozen=True, slots=True, eq=False)
class CapacityModel:
    """Draws the workload of a capacity machine from the jobs of a trace; see `fitted`."""

    machine: CapacityMachine
    # Columns of the trace's jobs that fit, shape ``(n,)``
    nodes: IntArray
    run_s: FloatArray
    estimate_s: FloatArray
    chances: FloatArray  # Probability that a job is drawn
    cycle: FloatArray  # Share of the arrivals in every hour of the week, shape ``(168,)``
    tilt: float  # Exponent of the chances; see `fitted`

    @classmethod
    def fitted(cls, machine: CapacityMachine, trace: Workload, cores_per_node: int = 1) -> "CapacityModel":
        """Fit the chances of the trace's jobs to the machine's load.

        A job takes whole nodes for its cores, rounded up; a job larger than the machine is left out. Run times are cut
        at the estimates. The part of an estimate beyond one day is stretched, and the run time in the same ratio, so
        that the trace's longest estimate becomes the machine's longest job. A job of ``n`` nodes is drawn with a
        probability proportional to ``n ** -tilt``. The exponent ``tilt`` is chosen so that the drawn jobs, arriving as
        often as published, produce the load.

        Parameters
        ----------
        machine
            The published numbers.
        trace
            Jobs of another machine.
        cores_per_node
            Number of processors per node of the trace's machine, at least 1.

        Raises
        ------
        UsageError
            If the trace has no job that fits, or no exponent >= 0 makes the load.
        """
        if cores_per_node < 1:
            raise UsageError(f"a node has {cores_per_node} cores, must have at least 1")
        nodes = -(-trace.processors // cores_per_node)
        fits = np.flatnonzero(nodes <= machine.nodes)
        if not len(fits):
            raise UsageError(f"{trace.name}: no job fits on {machine.nodes} nodes")
        nodes, limit = nodes[fits], trace.estimate[fits]
        stretch = _stretched(limit, machine.longest_days * DAY_S) / np.maximum(limit, 1.0)
        run_s = np.maximum(np.rint(np.minimum(trace.run[fits], limit) * stretch), 1.0)
        estimate_s = np.maximum(np.rint(limit * stretch), run_s)
        tilt = _tilt(nodes, run_s, machine.load * machine.nodes * DAY_S / machine.jobs_per_day)
        chances = _chances(nodes, tilt)
        return cls(machine, nodes, run_s, estimate_s, chances, weekly_cycle(trace.submit), tilt)

    def draw(self, days: int, rng: np.random.Generator, name: str) -> Workload:
        """Draw the jobs of ``days`` days, at least 1, starting with the first day of the trace's week.

        Their number has a Poisson distribution. The same generator state gives the same workload.
        """
        if days < 1:
            raise UsageError(f"the number of days is {days}, must be at least 1")
        count = max(int(rng.poisson(self.machine.jobs_per_day * days)), 1)
        chosen = rng.choice(len(self.chances), size=count, p=self.chances)
        submit = np.floor(arrivals(self.cycle, count, days, rng))
        run, nodes, estimate = self.run_s[chosen], self.nodes[chosen], self.estimate_s[chosen]
        return Workload(name, np.arange(1, count + 1), submit, run, nodes, estimate, self.machine.nodes)


def _stretched(limit_s: FloatArray, longest_s: float) -> FloatArray:
    """Return limits whose parts beyond one day are stretched so that the longest limit is ``longest_s``.

    If ``longest_s`` is a day or less, limits are cut there instead.
    """
    beyond = float(limit_s.max()) - DAY_S
    if longest_s <= DAY_S or beyond <= 0:
        return np.minimum(limit_s, longest_s)
    return np.minimum(limit_s, DAY_S) + np.maximum(limit_s - DAY_S, 0.0) * (longest_s - DAY_S) / beyond


def _chances(nodes: IntArray, tilt: float) -> FloatArray:
    weights = nodes.astype(np.float64) ** -tilt
    return np.asarray(weights / weights.sum())


def _tilt(nodes: IntArray, run_s: FloatArray, mean_node_s: float) -> float:
    """Return the exponent with which the mean job takes ``mean_node_s`` node seconds, by bisection."""
    area = nodes * run_s

    def mean(tilt: float) -> float:
        return float(_chances(nodes, tilt) @ area)

    low, high = 0.0, MOST_TILT
    if not mean(high) <= mean_node_s <= mean(low):
        fault = f"{mean_node_s:.0f} node seconds per job on average; the trace has {mean(high):.0f} to {mean(low):.0f}"
        raise UsageError(f"the load needs {fault}: choose another load or another trace")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) > mean_node_s else (low, middle)
    return low
