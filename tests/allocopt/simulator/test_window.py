from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.platform import Part, Platform
from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError, InvalidSolutionError, NoSolutionError, UsageError, WrongAnswerError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.periods import due_at
from allocopt.simulator.recorded import on_held_nodes
from allocopt.simulator.rules import EventOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.simulate import simulate
from allocopt.simulator.window import WindowScheduler, solver_allocator, windows
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.traces.generators import uniform_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

TOPOLOGY = FatTree(2, 2, 3)
CLUSTER = Platform.whole_nodes(TOPOLOGY)

Jobs = list[tuple[float, float, int]]

jobs_lists = st.lists(
    st.tuples(
        st.integers(0, 40) | st.integers(0, 400).map(lambda tenths: tenths / 10),
        st.integers(1, 30),
        st.one_of(st.integers(1, 3), st.integers(1, 12)),
    ),
    min_size=1,
    max_size=20,
)
periods = st.sampled_from([0.1, 1.0, 2.5, 7.0, 30.0])


@dataclass
class Scripted:
    """A solver that answers as it is told, and remembers the windows that it was given."""

    answer: str = "sequential"
    seen: list[TopologyProblem] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    name: str = "scripted"
    version: str = "1"
    kind: ClassVar[str] = "topology"
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(Strategy), frozenset(), "2 jobs")

    def is_available(self) -> bool:
        return True

    def takes(self, problem: TopologyProblem) -> bool:
        return True

    def kernels(self, problem: TopologyProblem) -> tuple[()]:
        return ()

    def refusal(self, problem: TopologyProblem) -> str | None:
        return "too many jobs" if self.answer == "refuse" and len(problem.jobs) > 2 else None

    def solve(self, problem: TopologyProblem, budget: Budget, seed: int, *_: Any) -> Result:
        self.seen.append(problem)
        self.seeds.append(seed)
        if self.answer == "raise":
            raise NoSolutionError("nothing found within the limit")
        if self.answer == "nothing":
            return Result(Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, 0.0, None, seed, self.name, self.version)
        if self.answer == "wrong":
            found = Allocation(tuple(problem.idle_nodes[: job.nodes] for job in problem.jobs))
        else:
            found = Allocation.sequential(problem)
        stopped = StopReason.INTERRUPTED if self.answer == "interrupt" else StopReason.COMPLETED
        status = Status.INTERRUPTED if self.answer == "interrupt" else Status.FEASIBLE
        cost = problem.objective(found)
        return Result(status, stopped, cost, None, 0.0, found, seed, self.name, self.version)


def workload(*jobs: tuple[float, float, int]) -> Workload:
    """Jobs given by submit time, run time and nodes; ids count from 1."""
    submit, run, nodes = (np.array(column) for column in zip(*jobs, strict=True))
    return Workload("test", np.arange(1, len(jobs) + 1), submit, run, nodes, run)


def scheduled(jobs: Jobs, scheduler: WindowScheduler, rules: Rules | None = None) -> Schedule:
    return simulate(workload(*jobs), CLUSTER, scheduler, rules)


Cut = tuple[list[int], list[tuple[str, int]]]
"""Idle nodes of a window, and its jobs with their nodes."""


def seen(made: Iterable[TopologyProblem]) -> list[Cut]:
    return [(p.idle_nodes.tolist(), [(job.id, job.nodes) for job in p.jobs]) for p in made]


def slow_windows(jobs: Workload, size: int, period_s: float) -> tuple[list[Cut], dict[int, float]]:
    """Follow section III-C word by word, every period, with an explicit number of waiting periods; add the starts."""
    nodes = dict(zip(jobs.ids.tolist(), jobs.processors.tolist(), strict=True))
    submit = dict(zip(jobs.ids.tolist(), jobs.submit.tolist(), strict=True))
    run = dict(zip(jobs.ids.tolist(), jobs.run.tolist(), strict=True))
    to_come, waited, ends, period = set(nodes), {}, {}, 0
    cuts: list[Cut] = []
    start: dict[int, float] = {}
    while to_come or waited:
        now = period * period_s
        ends = {node: end for node, end in ends.items() if end > now}
        for job in [job for job in to_come if submit[job] <= now]:
            waited[job] = 0
            to_come.remove(job)
        idle, selected = [node for node in range(size) if node not in ends], []
        for job in sorted(waited, key=lambda job: (-waited[job], nodes[job], submit[job], job)):
            if sum(nodes[chosen] for chosen in [*selected, job]) > len(idle):
                break
            selected.append(job)
        for job in selected:
            start[job] = now
            del waited[job]
        for job in waited:
            waited[job] += 1
        for job in [job for job in selected if nodes[job] == 1]:
            ends[idle.pop(0)] = now + run[job]
        others = [job for job in selected if nodes[job] > 1]
        if others:
            cuts.append((list(idle), [(str(job), nodes[job]) for job in others]))
        for job in others:
            ends |= {idle.pop(0): now + run[job] for _ in range(nodes[job])}
        period += 1
    return cuts, start


@given(jobs_lists, periods)
def test_jobs_start_and_windows_are_cut_for_solver_and_instances_as_the_rule_of_the_paper_says(
    jobs: Jobs, period_s: float
) -> None:
    solver = Scripted()
    made = scheduled(jobs, WindowScheduler(period_s, solver, "scas"))
    cuts, starts = slow_windows(workload(*jobs), TOPOLOGY.size, period_s)
    assert dict(zip(made.workload.ids.tolist(), made.start.tolist(), strict=True)) == starts
    assert seen(solver.seen) == cuts
    assert seen(windows(workload(*jobs), TOPOLOGY, period_s, Allocation.sequential, min_jobs=1)) == cuts


@given(jobs_lists, periods, st.sampled_from([("sequential", "scas"), ("annealing", "dcas"), ("dp", "scas")]))
def test_every_solver_keeps_the_schedule_and_no_node_is_given_twice(
    jobs: Jobs, period_s: float, contender: tuple[str, str]
) -> None:
    solver, strategy = contender
    made = scheduled(jobs, WindowScheduler(period_s, solver, strategy, iterations=50))
    assert made.nodes is not None
    assert made.start.tolist() == scheduled(jobs, WindowScheduler(period_s, Scripted())).start.tolist()
    assert [len(nodes) for nodes in made.nodes] == made.workload.processors.tolist()
    assert not on_held_nodes(made).any()


@given(jobs_lists, periods, st.sampled_from(EventOrder))
def test_jobs_start_at_multiples_of_the_period_only(jobs: Jobs, period_s: float, order: EventOrder) -> None:
    made = scheduled(jobs, WindowScheduler(period_s, "sequential"), Rules(order))
    for start, submit in zip(made.start.tolist(), made.workload.submit.tolist(), strict=True):
        assert start == round(start / period_s) * period_s
        assert start >= submit


@given(st.floats(0, 1e6), st.floats(1e-3, 1e4))
def test_a_due_time_is_the_first_multiple_that_is_not_before(time: float, period_s: float) -> None:
    due = due_at(period_s, time)
    number = round(due / period_s)
    assert due == number * period_s
    assert (number - 1) * period_s < time <= due


def test_years_without_jobs_are_jumped_over() -> None:
    made = scheduled([(0, 1e9, 12), (1, 5, 2), (5e9, 5, 3)], WindowScheduler(1.0, "sequential"))
    assert made.start.tolist() == [0, 1e9, 5e9]


THREE_JOBS: Jobs = [(0, 5, 2), (0, 5, 3), (0, 5, 4)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("sequential", None),
        ("nothing", "scripted found no allocation"),
        ("raise", "scripted: nothing found within the limit"),
        ("refuse", "scripted takes 2 jobs"),
    ],
)
def test_only_a_solver_without_an_answer_is_replaced_and_that_is_seen(answer: str, reason: str | None) -> None:
    scheduler = WindowScheduler(10, Scripted(answer))
    made = scheduled([*THREE_JOBS, (100, 5, 1)], scheduler)
    assert made.nodes is not None
    assert [nodes.tolist() for nodes in made.nodes[:3]] == [[0, 1], [2, 3, 4], [5, 6, 7, 8]]
    (row,) = scheduler.windows
    assert (row.time_s, row.jobs, row.kind, row.solver, row.reason) == (0.0, 3, "topology", "scripted", reason)
    assert (row.status is None) is (row.runtime_s is None) is (reason is not None)
    assert scheduler.remarks() == ([f"1 of 1 windows allocated without a search: {reason}"] if reason else [])


def test_a_wrong_answer_and_an_interrupt_are_no_reason_for_another_allocation() -> None:
    with pytest.raises(WrongAnswerError, match="solver 'scripted' returned a wrong answer"):
        scheduled(THREE_JOBS, WindowScheduler(10, Scripted("wrong")))
    with pytest.raises(KeyboardInterrupt):
        scheduled(THREE_JOBS, WindowScheduler(10, Scripted("interrupt")))


def test_the_window_at_hand_is_solved_as_well_as_the_solver_solves_it_alone() -> None:
    made = scheduled(THREE_JOBS, WindowScheduler(10, "dp"))
    problem = next(windows(workload(*THREE_JOBS), TOPOLOGY, 10, Allocation.sequential))
    assert made.nodes is not None
    best = solve(problem, strategy="scas", solver="dp", time_limit=None)
    assert problem.objective(Allocation(made.nodes)) == best.objective


def test_every_window_has_a_seed_of_its_own_that_follows_from_the_first() -> None:
    def seeds(seed: int) -> list[int]:
        solver = Scripted()
        scheduled([(0, 5, 2), (10, 5, 2), (30, 5, 2)], WindowScheduler(10, solver, seed=seed))
        return solver.seeds

    assert len(set(seeds(0))) == 3
    assert seeds(0) == seeds(0)
    assert seeds(0) != seeds(1)


@pytest.mark.parametrize(
    ("solver", "strategy", "taken"),
    [("dp", None, "dcas"), ("annealing", None, "free"), ("annealing", "dcas", "dcas"), ("sequential", "scas", "scas")],
)
def test_without_a_strategy_the_widest_that_the_solver_takes_is_used(
    solver: str, strategy: str | None, taken: str
) -> None:
    assert WindowScheduler(10, solver, strategy)._strategy == taken


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period_s": 0.0}, "the period is 0.0 s, must be within 0.001 and 1e"),
        ({"solver": "dpp"}, "there is no solver 'dpp'; did you mean 'dp'?"),
        ({"solver": "dp", "strategy": "free"}, "solver 'dp' does not take free; it takes scas"),
        ({"iterations": 0}, "the iteration limit is 0"),
        ({"time_limit": -1.0}, "the time limit is -1.0 s"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_a_senseless_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        WindowScheduler(**options)


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        (Platform.pool(12), "needs a machine whose topology is known"),
        (Platform.whole_nodes(12), "needs a machine whose topology is known"),
        (Platform.of_parts([Part(12, {"cores": 4})], TOPOLOGY), "needs whole nodes; on this platform jobs share"),
    ],
)
def test_a_platform_on_which_it_makes_no_sense_is_refused(platform: Platform, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(workload(*THREE_JOBS), platform, WindowScheduler(10, "sequential"))


def test_it_is_installed_as_a_policy_with_its_options() -> None:
    policy = get_policy("window", {"period_s": 30, "solver": "dp", "iterations": 5})
    assert policy == WindowScheduler(30, "dp", iterations=5)


@pytest.mark.slow
def test_windows_are_chosen_by_number_of_jobs_and_named_in_turn() -> None:
    trace = uniform_workload(400, np.random.default_rng(5), nodes=(1, 4))

    def cut(least: int, most: int | None, skip: int) -> list[TopologyProblem]:
        return list(
            windows(trace, TOPOLOGY, 60, Allocation.sequential, min_jobs=least, max_jobs=most, skip=skip, prefix="w")
        )

    every, chosen = cut(1, None, 0), cut(2, 3, 4)
    wanted = [problem for problem in every if 2 <= len(problem.jobs) <= 3][4:]
    assert [p.jobs for p in chosen] == [p.jobs for p in wanted]
    assert [p.name for p in chosen[:2]] == ["w-000", "w-001"]


def test_a_job_larger_than_the_cluster_is_an_error_not_a_stall() -> None:
    with pytest.raises(InvalidProblemError, match="job 2: asks for 13 nodes, the machine has 12"):
        list(windows(workload((0, 1, 1), (0, 1, 13)), TOPOLOGY, 10, Allocation.sequential))


@pytest.mark.parametrize(
    ("period_s", "asked", "fault"),
    [
        (0, {}, "the period is 0 s"),
        (60, {"min_jobs": 0}, "the least number of jobs of a window is 0"),
        (60, {"min_jobs": 3, "max_jobs": 2}, "of a window, 2, is below the least, 3"),
        (60, {"skip": -1}, "the number of windows to skip is -1"),
    ],
)
def test_a_senseless_request_is_refused(period_s: float, asked: dict[str, int], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        next(windows(workload((0, 1, 1)), TOPOLOGY, period_s, Allocation.sequential, **asked))


def test_an_allocator_that_gives_a_node_twice_is_found_out() -> None:
    def wrong(problem: TopologyProblem) -> Allocation:
        return Allocation(tuple(problem.idle_nodes[: job.nodes] for job in problem.jobs))

    with pytest.raises(InvalidSolutionError, match="job '2' gets node 0"):
        list(windows(workload((0, 1, 2), (0, 1, 3)), TOPOLOGY, 10, wrong))


@pytest.mark.parametrize(("solver", "strategy"), [("sequential", "scas"), ("annealing", "dcas")])
def test_an_installed_solver_advances_the_cluster_repeatably(solver: str, strategy: str) -> None:
    trace = uniform_workload(300, np.random.default_rng(2))

    def cut() -> list[Cut]:
        allocate = solver_allocator(solver, strategy, 50, np.random.default_rng(7))
        return seen(islice(windows(trace, FatTree(10, 10, 10), 60, allocate, skip=20), 10))

    assert len(cut()) == 10
    assert cut() == cut()


def test_an_allocator_needs_a_strategy_that_exists() -> None:
    with pytest.raises(UsageError, match=r"'sequential' does not take none such; it takes dcas, free, scas"):
        solver_allocator("sequential", "none such", 50, np.random.default_rng(7))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "cluster"),
    [
        ("tjap/data_large_1800_40.txt.gz", FatTree(10, 10, 10)),
        ("traces/CTC-SP2-1996-3.1-cln.swf.gz", FatTree(4, 9, 10)),
        ("traces/Sandia-Ross-2001-1.1-cln.swf.gz", FatTree(16, 10, 10)),
    ],
)
def test_windows_are_cut_from_real_workloads(shared_data: Path, trace: str, cluster: FatTree) -> None:
    made = list(islice(windows(read_workload(shared_data / trace), cluster, 60, Allocation.sequential, skip=10), 5))
    assert len(made) == 5
    for problem in made:
        assert len(problem.jobs) >= 2
        assert problem.sizes.min() >= 2
