"""Simulations on multicore machines: from decision to decision, under one policy, or as measured."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import IntArray
from allocopt.cluster.multicore import Machine
from allocopt.errors import InvalidProblemError
from allocopt.simulator.faults import SchedulerError
from allocopt.simulator.multicore.policies import Action, NodeSelection
from allocopt.simulator.multicore.rates import count_energy
from allocopt.simulator.multicore.run import decide, run_placed, run_policy, to_decision
from allocopt.simulator.multicore.schedule import MulticoreSchedule, nodes_of
from allocopt.simulator.multicore.setup import Execution, new_simulation
from allocopt.simulator.multicore.state import Multicore
from allocopt.simulator.state import State
from allocopt.traces.tasks import TaskWorkload

PATIENCE_S = 0.1
"""Seconds for which a kernel runs, about, before it is seen whether the user wants to interrupt it."""


class MulticoreSimulation:
    """Steps from one decision to the next.

    Parameters
    ----------
    machine
        The machine.
    jobs
        The jobs.
    execution
        How they run; None for contention.
    seed
        Fixes what policies choose at random.
    fixed_nodes
        Node that each job is to run on, -1 for any, shape ``(n,)``; None for any.

    Raises
    ------
    InvalidProblemError
        If there are no jobs, or one can never start; it is named.
    """

    def __init__(
        self,
        machine: Machine,
        jobs: TaskWorkload,
        execution: Execution | None = None,
        seed: int = 0,
        fixed_nodes: IntArray | None = None,
    ) -> None:
        self.machine = machine
        self.jobs = jobs
        self.state, self.multicore = new_simulation(machine, jobs, execution or Execution(), seed, fixed_nodes)
        self._fresh = [array.copy() for array in _arrays(self.state, self.multicore)]

    def reset(self, seed: int = 0) -> None:
        """Go back to before the first event."""
        for kept, array in zip(self._fresh, _arrays(self.state, self.multicore), strict=True):
            array[...] = kept
        self.multicore.word[0] = seed % 2**64

    def to_decision(self) -> int:
        """Go on until a job waits and a core is idle; return ``DECISION``, ``OVER`` or ``STALLED``."""
        return int(to_decision(self.state, self.multicore))

    def decide(self, action: Action) -> int:
        """Start waiting jobs by a policy until the one that is next does not fit; return how many have started."""
        return int(decide(self.state, self.multicore, *action.codes))

    def run(self, action: Action) -> None:
        """Go on to the end under one policy."""
        events = 64
        while True:
            began = time.perf_counter()
            if run_policy(self.state, self.multicore, *action.codes, events) < events:
                return
            quick = time.perf_counter() - began < PATIENCE_S
            events = 2 * events if quick else max(1, events // 2)

    def schedule(self) -> MulticoreSchedule:
        """Return what came out.

        Raises
        ------
        SchedulerError
            If jobs wait for ever.
        """
        unfinished = np.flatnonzero(np.isnan(self.multicore.jobs["end"]))
        if unfinished.size:
            first = self.jobs.names[int(unfinished[0])]
            left = "1 job has" if unfinished.size == 1 else f"{unfinished.size} jobs have"
            raise SchedulerError(f"{left} not ended, the first is job {first!r}")
        for processor in range(self.multicore.processors.size):
            count_energy(self.multicore, processor, float(self.multicore.jobs["end"].max()))
        energy = np.add.reduceat(self.multicore.tasks["energy"], self.multicore.jobs["first_task"])
        start, end = self.multicore.jobs["start"].copy(), self.multicore.jobs["end"].copy()
        cores = self.multicore.tasks["core"].copy()
        return MulticoreSchedule(
            self.jobs.workload(start, end),
            self.machine.cores,
            self.jobs.submit,
            start,
            end,
            nodes=nodes_of(self.machine, self.jobs, cores),
            machine=self.machine,
            jobs=self.jobs,
            cores=cores,
            job_energy_j=np.asarray(energy, dtype=np.float64),
            processor_energy_j=self.multicore.processors["energy"].copy(),
        )


class Placed(NamedTuple):
    """Where and when a job was started.

    Parameters
    ----------
    node
        Name of the node.
    start
        Time in seconds.
    """

    node: str
    start: float


def replay(
    machine: Machine, jobs: TaskWorkload, placed: Mapping[str, Placed], execution: Execution | None = None
) -> MulticoreSchedule:
    """Simulate jobs that were started elsewhere, at the same times on the same nodes; the cores are the first idle.

    A job whose cores are not idle then, as others take longer here, starts when they are. In the schedule, the time at
    which a job was started stands for its submission.

    Parameters
    ----------
    machine
        The machine.
    jobs
        The jobs, each on one node.
    placed
        Where and when each job was started, by its name.
    execution
        How jobs run; None for contention.

    Raises
    ------
    InvalidProblemError
        If a job is not among them, or its node is unknown or too small; it is named.
    """
    numbers = {node.name: number for number, node in enumerate(machine.nodes())}
    for name in jobs.names:
        if name not in placed:
            raise InvalidProblemError(f"job {name!r}", "is not among the jobs that were started")
        if placed[name].node not in numbers:
            raise InvalidProblemError(f"job {name!r}", f"was started on {placed[name].node!r}, there is no such node")
    started = replace(jobs, submit=np.array([placed[name].start for name in jobs.names]))
    fixed = np.array([numbers[placed[name].node] for name in started.names])
    simulation = MulticoreSimulation(machine, started, execution, fixed_nodes=fixed)
    run_placed(simulation.state, simulation.multicore, int(NodeSelection.HIGH_CORES))
    return simulation.schedule()


def _arrays(state: State, multicore: Multicore) -> tuple[NDArray[Any], ...]:
    """Return all arrays of a simulation."""
    return tuple(np.asarray(array) for array in (*state, *multicore))
