"""Small simulations in which much happens at the same time, and what no schedule may ever do."""

import numpy as np
from hypothesis import strategies as st

from allocopt.simulator.recorded import on_held_nodes
from allocopt.simulator.rules import EventOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.traces.workload import Workload

rules = st.builds(Rules, st.sampled_from(EventOrder), st.booleans())


@st.composite
def small_workloads(
    draw: st.DrawFn, most_jobs: int = 8, most_processors: int = 5, exact: bool = False, following: bool = False
) -> Workload:
    """Jobs of whole seconds on a small machine, whose size the workload states.

    Estimates are the run times if ``exact``; some jobs follow another one if ``following``.
    """
    machine = draw(st.integers(1, most_processors))
    seconds = st.integers(1, 6)
    job = st.tuples(st.integers(0, 8), seconds, st.integers(1, machine), seconds, st.integers(-1, 2))
    jobs = draw(st.lists(job, min_size=1, max_size=most_jobs))
    submit, run, processors, estimate, users = map(np.array, zip(*jobs, strict=True))
    before, think = draw(_precedence(len(jobs))) if following else (np.full(len(jobs), -1), np.zeros(len(jobs)))
    submit, run, estimate = (column.astype(np.float64) for column in (submit, run, run if exact else estimate))
    columns = np.arange(len(jobs)), submit, run, processors, estimate
    return Workload("small", *columns, machine, users=users, preceding=before, think_s=think)


@st.composite
def _precedence(draw: st.DrawFn, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Preceding jobs without a circle: of every job, one that stands before it in a drawn order, or none."""
    before, think = np.full(jobs, -1), np.zeros(jobs)
    order = draw(st.permutations(range(jobs)))
    for place in range(1, jobs):
        chosen = draw(st.integers(-1, place - 1))
        if chosen >= 0:
            before[order[place]], think[order[place]] = order[chosen], draw(st.integers(0, 3))
    return before, think


def machine_of(jobs: Workload) -> int:
    """Size of the machine that a small workload was drawn for."""
    assert jobs.machine_processors is not None
    return jobs.machine_processors


def lengths(jobs: Workload, rules: Rules) -> list[float]:
    """Seconds for which each job holds its processors at speed 1."""
    return [min(pair) if rules.kill_at_limit else pair[0] for pair in zip(jobs.run, jobs.estimate, strict=True)]


def assert_lawful(schedule: Schedule, machine: int, rules: Rules) -> None:
    """Every job starts, not before its release, runs as long as it has to, and the machine is never over-committed.

    A job is released when it is submitted, the one before it has ended and the think time is over. Whole nodes belong
    to one job at a time.
    """
    jobs, start, end = schedule.workload, schedule.start, schedule.end
    assert np.isfinite(start).all()
    before = jobs.preceding_rows()
    follows = np.where(before >= 0, end[before] + jobs.think_s, 0.0)
    assert schedule.release.tolist() == np.maximum(jobs.submit, follows).tolist()
    assert (start >= schedule.release).all()
    assert (end - start).tolist() == lengths(jobs, rules)
    assert most_in_use(start, end, jobs.processors) <= machine
    if schedule.nodes is not None:
        assert [len(set(nodes.tolist())) for nodes in schedule.nodes] == jobs.processors.tolist()
        assert not on_held_nodes(schedule).any()


def most_in_use(start: np.ndarray, end: np.ndarray, units: np.ndarray) -> int:
    """Most units that are held at once by jobs that hold theirs on ``[start, end)``; the most is held at some start."""
    return max(int(units[(start <= time) & (time < end)].sum()) for time in start)
