from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.platform import Part, Platform
from allocopt.cluster.topology import FatTree
from allocopt.errors import NoSolutionError, UsageError, WrongAnswerError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import EventOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import simulate
from allocopt.simulator.window import WindowRule, WindowScheduler, windows
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
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


def starts(jobs: Jobs, period_s: float = 10.0) -> list[float]:
    made = scheduled(jobs, WindowScheduler(period_s, "sequential"))
    by_id = dict(zip(made.workload.ids.tolist(), made.start.tolist(), strict=True))
    return [by_id[job] for job in sorted(by_id)]


def slow_starts(jobs: Jobs, size: int, period_s: float) -> dict[int, float]:
    """Follow section III-C word by word: every period, with an explicit number of waiting periods."""
    to_come, waited, ends, period = dict(enumerate(jobs, 1)), {}, {}, 0
    start: dict[int, float] = {}
    while to_come or waited:
        now = period * period_s
        for job in [job for job, (submit, _, _) in to_come.items() if submit <= now]:
            waited[job] = (0, to_come.pop(job))
        idle = size - sum(nodes for end, nodes in ends.values() if end > now)
        order = sorted(waited, key=lambda job: (-waited[job][0], waited[job][1][2], waited[job][1][0], job))
        for job in order:
            _, run, nodes = waited[job][1]
            if nodes > idle:
                break
            idle -= nodes
            start[job], ends[job] = now, (now + run, nodes)
            del waited[job]
        waited = {job: (periods + 1, asked) for job, (periods, asked) in waited.items()}
        period += 1
    return start


@given(jobs_lists, periods)
def test_jobs_start_as_the_rule_of_the_paper_says(jobs: Jobs, period_s: float) -> None:
    made = scheduled(jobs, WindowScheduler(period_s, "sequential"))
    assert dict(zip(made.workload.ids.tolist(), made.start.tolist(), strict=True)) == slow_starts(jobs, 12, period_s)


@given(jobs_lists, periods)
def test_the_scheduler_solves_the_windows_that_are_cut_for_instances(jobs: Jobs, period_s: float) -> None:
    solver = Scripted()
    scheduled(jobs, WindowScheduler(period_s, solver, "scas"))
    cut = list(windows(workload(*jobs), TOPOLOGY, period_s, Allocation.sequential, min_jobs=1))
    assert [(p.idle_nodes.tolist(), p.jobs) for p in solver.seen] == [(p.idle_nodes.tolist(), p.jobs) for p in cut]


@given(jobs_lists, periods, st.sampled_from([("sequential", "scas"), ("annealing", "dcas"), ("dp", "scas")]))
def test_every_solver_keeps_the_schedule_and_no_node_is_given_twice(
    jobs: Jobs, period_s: float, contender: tuple[str, str]
) -> None:
    solver, strategy = contender
    made = scheduled(jobs, WindowScheduler(period_s, solver, strategy, iterations=50))
    assert made.nodes is not None
    assert made.start.tolist() == scheduled(jobs, WindowScheduler(period_s, Scripted())).start.tolist()
    assert [len(nodes) for nodes in made.nodes] == made.workload.processors.tolist()
    for node in range(CLUSTER.size):
        held = [job for job, nodes in enumerate(made.nodes) if node in nodes]
        in_turn = sorted((made.start[job], made.end[job]) for job in held)
        assert all(end <= following for (_, end), (following, _) in pairwise(in_turn))


@given(jobs_lists, periods, st.sampled_from(EventOrder))
def test_jobs_start_at_multiples_of_the_period_only(jobs: Jobs, period_s: float, order: EventOrder) -> None:
    made = scheduled(jobs, WindowScheduler(period_s, "sequential"), Rules(order))
    for start, submit in zip(made.start.tolist(), made.workload.submit.tolist(), strict=True):
        assert start == round(start / period_s) * period_s
        assert start >= submit


@given(st.floats(0, 1e6), st.floats(1e-3, 1e4))
def test_a_due_time_is_the_first_multiple_that_is_not_before(time: float, period_s: float) -> None:
    rule = WindowRule(period_s)
    due = rule.due(time)
    number = rule.number(due)
    assert due == number * period_s
    assert (number - 1) * period_s < time <= due


def test_a_job_waits_for_the_next_multiple_though_nodes_are_idle() -> None:
    assert starts([(0, 5, 2), (1, 5, 2), (10, 5, 2), (10.5, 5, 2)]) == [0, 10, 10, 20]


def test_fewest_nodes_go_first_among_jobs_that_have_waited_as_long() -> None:
    assert starts([(1, 10, 8), (2, 10, 5), (3, 10, 7)]) == [20, 10, 10]


def test_a_job_submitted_at_a_multiple_has_waited_as_long_as_those_of_the_period_before() -> None:
    assert starts([(0, 15, 12), (1, 10, 8), (10, 10, 5)]) == [0, 30, 20]


def test_rounding_does_not_cost_a_job_a_waiting_period() -> None:
    # 0.7 / 0.1 is less than 7 in binary.
    assert starts([(0, 1.0, 12), (0.3, 1.0, 8), (0.35, 1.0, 5)], 0.1) == [0, 1.0, 2.0]


def test_the_job_that_has_waited_for_more_periods_goes_first() -> None:
    assert starts([(0, 15, 12), (1, 10, 8), (11, 10, 5)]) == [0, 20, 30]


def test_the_first_job_that_does_not_fit_holds_back_those_behind_it() -> None:
    assert starts([(0, 25, 6), (1, 10, 8), (11, 10, 2)]) == [0, 30, 30]


def test_a_job_that_ends_at_a_multiple_gives_its_nodes_to_the_window_then() -> None:
    assert starts([(0, 10, 12), (1, 5, 12)]) == [0, 10]


def test_years_in_which_nothing_happens_are_jumped_over() -> None:
    assert starts([(0, 1e9, 12), (1, 5, 2), (5e9, 5, 3)], 1.0) == [0, 1e9, 5e9]


def test_one_node_jobs_take_the_first_idle_nodes_and_are_no_part_of_the_problem() -> None:
    solver = Scripted()
    made = scheduled([(0, 9, 2), (0, 9, 1), (0, 9, 1)], WindowScheduler(10, solver))
    assert made.nodes is not None
    assert [nodes.tolist() for nodes in made.nodes] == [[2, 3], [0], [1]]
    assert [[job.id for job in problem.jobs] for problem in solver.seen] == [["1"]]
    assert solver.seen[0].idle_nodes.tolist() == list(range(2, 12))


def test_a_window_of_one_node_jobs_asks_no_solver() -> None:
    solver = Scripted()
    scheduler = WindowScheduler(10, solver)
    scheduled([(0, 9, 1), (0, 9, 1)], scheduler)
    assert solver.seen == []
    assert scheduler.log.n_windows == 0


THREE_JOBS: Jobs = [(0, 5, 2), (0, 5, 3), (0, 5, 4)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("nothing", "scripted found no allocation"),
        ("raise", "scripted: nothing found within the limit"),
        ("refuse", "scripted takes 2 jobs"),
    ],
)
def test_a_solver_without_an_answer_is_replaced_and_that_is_seen(answer: str, reason: str) -> None:
    scheduler = WindowScheduler(10, Scripted(answer))
    made = scheduled([*THREE_JOBS, (100, 5, 1)], scheduler)
    assert made.nodes is not None
    assert [nodes.tolist() for nodes in made.nodes[:3]] == [[0, 1], [2, 3, 4], [5, 6, 7, 8]]
    assert [(fallback.time, fallback.reason) for fallback in scheduler.log.fallbacks] == [(0, reason)]
    assert scheduler.remarks() == [f"1 of 1 windows allocated sequentially: {reason}"]


def test_a_solver_that_answers_is_not_remarked_upon() -> None:
    scheduler = WindowScheduler(10, "sequential")
    scheduled(THREE_JOBS, scheduler)
    assert scheduler.log.n_windows == 1
    assert scheduler.remarks() == []


def test_a_wrong_answer_is_an_error_not_a_fallback() -> None:
    with pytest.raises(WrongAnswerError, match="solver 'scripted' returned a wrong answer"):
        scheduled(THREE_JOBS, WindowScheduler(10, Scripted("wrong")))


def test_an_interrupted_solver_interrupts_the_simulation() -> None:
    with pytest.raises(KeyboardInterrupt):
        scheduled(THREE_JOBS, WindowScheduler(10, Scripted("interrupt")))


def test_the_window_at_hand_is_solved_as_well_as_the_solver_solves_it_alone() -> None:
    made = scheduled(THREE_JOBS, WindowScheduler(10, "dp"))
    problem = next(windows(workload(*THREE_JOBS), TOPOLOGY, 10, Allocation.sequential))
    assert made.nodes is not None
    best = solve(problem, "scas", "dp", None)
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
        (Platform.pool(12), "needs a platform whose topology is known"),
        (Platform.whole_nodes(12), "needs a platform whose topology is known"),
        (Platform.of_parts([Part(12, {"cores": 4})], TOPOLOGY), "gives away whole nodes, on this platform jobs share"),
    ],
)
def test_a_platform_on_which_it_makes_no_sense_is_refused(platform: Platform, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(workload(*THREE_JOBS), platform, WindowScheduler(10, "sequential"))


def test_it_is_installed_as_a_policy_with_its_options() -> None:
    policy = get_policy("window", {"period_s": 30, "solver": "dp", "iterations": 5})
    assert policy == WindowScheduler(30, "dp", iterations=5)


def names(schedule: Schedule) -> Iterator[list[int]]:
    assert schedule.nodes is not None
    yield from (nodes.tolist() for nodes in schedule.nodes)


def test_the_same_seed_gives_the_same_nodes() -> None:
    jobs: Jobs = [(float(i), 20.0, 1 + i % 5) for i in range(30)]
    first, second = (
        list(names(scheduled(jobs, WindowScheduler(10, "annealing", "dcas", iterations=100)))) for _ in range(2)
    )
    assert first == second
