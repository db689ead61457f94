"""Jobs of a capacity machine of which only a few numbers are published, drawn from another machine's trace.

A capacity machine runs very many jobs, most of one or a few nodes. Of some such machines only the number of nodes, the
number of jobs and the longest job are published. The jobs here are synthetic: each is a job of a real trace, with its
size, run time and estimate together, so that they stay related as in the trace. They arrive as often as published, by
the trace's hours of the day and days of the week.
"""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.weekly_cycle import DAY_S, arrivals, weekly_cycle
from allocopt.traces.workload import Workload

MOST_TILT = 8.0
"""Greatest exponent that is tried for a load; at it, nearly all jobs have the trace's smallest size."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class CapacityMachine:
    """Published numbers of a capacity machine, and the load that its synthetic workload has.

    Raises `UsageError` if a number is not positive.

    Parameters
    ----------
    nodes
        Number of its nodes.
    jobs_per_day
        Mean number of jobs that arrive on a day.
    longest_days
        Longest that a job may run, in days.
    load
        Node seconds that arrive in a second, as a share of the nodes. It is chosen, not published.
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
    nodes: IntArray  # Of the trace's jobs, shape ``(n,)``
    run_s: FloatArray
    estimate_s: FloatArray
    chances: FloatArray  # Probability of every job of the trace to be drawn
    cycle: FloatArray  # Share of the arrivals in every hour of the week, shape ``(168,)``
    tilt: float  # The exponent of the chances

    @classmethod
    def fitted(cls, machine: CapacityMachine, trace: Workload, cores_per_node: int = 1) -> "CapacityModel":
        """Fit the chances of the trace's jobs to the machine's load.

        A job takes as many whole nodes as its cores fill; a job larger than the machine is left out. Run times end at
        the estimates. If an estimate is longer than a day, its part beyond the day is stretched, and the run time with
        it, so that the trace's longest estimate becomes the machine's longest job. A job of ``n`` nodes is drawn in
        proportion to ``n ** -tilt``. The exponent is the one at which the mean job, arriving as often as published,
        makes the load.

        Parameters
        ----------
        machine
            The published numbers.
        trace
            Jobs of another machine.
        cores_per_node
            Processors of the trace that fill a node of the trace's machine, at least 1.

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
        """Draw the jobs of some days, at least 1, from the first day of the trace's week on.

        Their number is a Poisson one. The same state of the generator gives the same workload.
        """
        if days < 1:
            raise UsageError(f"the number of days is {days}, must be at least 1")
        count = max(int(rng.poisson(self.machine.jobs_per_day * days)), 1)
        chosen = rng.choice(len(self.chances), size=count, p=self.chances)
        submit = np.floor(arrivals(self.cycle, count, days, rng))
        run, nodes, estimate = self.run_s[chosen], self.nodes[chosen], self.estimate_s[chosen]
        return Workload(name, np.arange(1, count + 1), submit, run, nodes, estimate, self.machine.nodes)


def _stretched(limit_s: FloatArray, longest_s: float) -> FloatArray:
    """Stretch what limits have beyond a day so that the longest is ``longest_s``; shorter ones stay, if that is longer.

    Where the machine's longest job is shorter than a day, limits are cut.
    """
    beyond = float(limit_s.max()) - DAY_S
    if longest_s <= DAY_S or beyond <= 0:
        return np.minimum(limit_s, longest_s)
    return np.minimum(limit_s, DAY_S) + np.maximum(limit_s - DAY_S, 0.0) * (longest_s - DAY_S) / beyond


def _chances(nodes: IntArray, tilt: float) -> FloatArray:
    weights = nodes.astype(np.float64) ** -tilt
    return np.asarray(weights / weights.sum())


def _tilt(nodes: IntArray, run_s: FloatArray, mean_node_s: float) -> float:
    """Return the exponent at which the mean job takes so many node seconds, by bisection."""
    area = nodes * run_s

    def mean(tilt: float) -> float:
        return float(_chances(nodes, tilt) @ area)

    low, high = 0.0, MOST_TILT
    if not mean(high) <= mean_node_s <= mean(low):
        fault = f"{mean_node_s:.0f} node seconds for a mean job, the trace can give {mean(high):.0f} to {mean(low):.0f}"
        raise UsageError(f"the load needs {fault}: choose another load or another trace")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) > mean_node_s else (low, middle)
    return low
