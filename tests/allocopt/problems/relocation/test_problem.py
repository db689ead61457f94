"""Relocations: what is verified of them, step by step, and in which order they are done."""

from dataclasses import replace

import numpy as np
import pytest
from support.relocations import broken_rule, on, problem_of, random_problem, request

from allocopt.cluster.options import FatTreeOptions
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.problems.kind import get_kind
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.generate import synthetic_relocation
from allocopt.problems.relocation.order import ordered
from allocopt.problems.relocation.problem import (
    Action,
    PlacedJob,
    Places,
    Relocation,
    RelocationProblem,
    Step,
    WaitingGang,
    verify_relocation,
)

SIZE = 6


def movable(name: str, *nodes: int) -> PlacedJob:
    return PlacedJob(name, request(SIZE, len(nodes)), on(*nodes), 4.0, 1.0)


def circle(*names: str) -> tuple[RelocationProblem, Relocation]:
    """Return jobs on the first nodes, each of which gets the node of the next one."""
    jobs = [movable(name, node) for node, name in enumerate(names)]
    problem = problem_of(3, SIZE, jobs, [WaitingGang("g", request(SIZE, 1), 1.0)])
    targets = [on((node + 1) % len(names)) for node in range(len(names))]
    return problem, ordered(problem, targets, [()]).relocation


def test_a_move_waits_until_another_job_has_left_its_nodes() -> None:
    problem = problem_of(3, SIZE, [movable("a", 0), movable("b", 1)], [WaitingGang("g", request(SIZE, 1), 1.0)])
    found = ordered(problem, [on(1), on(2)], [on(0)])
    assert found.is_least
    assert [f"{action} {job}" for action, job in found.relocation.steps] == ["move b", "move a", "start g"]
    assert verify_relocation(problem, found.relocation) == 2.0


@pytest.mark.parametrize("count", [2, 3, 5])
def test_of_jobs_in_a_circle_one_is_parked(count: int) -> None:
    problem, solution = circle(*"abcde"[:count])
    assert len(solution.parked) == 1
    assert verify_relocation(problem, solution) == count + 1  # the gang waits on


def test_parking_is_needed_even_when_another_node_is_idle() -> None:
    _, solution = circle("a", "b")
    assert [str(step.action) for step in solution.steps] == ["park", "move", "move"]


def test_two_circles_park_a_job_each() -> None:
    problem = problem_of(
        3, SIZE, [movable(name, node) for node, name in enumerate("abcd")], [WaitingGang("g", request(SIZE, 1), 1.0)]
    )
    found = ordered(problem, [on(1), on(0), on(3), on(2)], [()])
    assert found.is_least
    assert len(found.relocation.parked) == 2


def test_a_search_that_is_cut_off_still_finds_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.problems.relocation.order.MOST_STATES", 0)
    problem = problem_of(
        3, SIZE, [movable(name, node) for node, name in enumerate("abcd")], [WaitingGang("g", request(SIZE, 1), 1.0)]
    )
    found = ordered(problem, [on(1), on(0), on(3), on(2)], [()])
    assert not found.is_least
    assert verify_relocation(problem, found.relocation) == 5.0


def fewest_parked(problem: RelocationProblem, target: Relocation) -> int:
    """Return the least number of parked jobs, by trying every order of every choice of them."""
    from itertools import combinations, permutations

    jobs = target.moved(problem)
    for count in range(len(jobs) + 1):
        for parked in combinations(jobs, count):
            for order in permutations(jobs):
                steps = [Step(Action.STOP, job.id) for job in target.stopped(problem)]
                steps += [Step(Action.PARK, job.id) for job in parked]
                steps += [Step(Action.MOVE, job.id) for job in order]
                pairs = zip(problem.waiting, target.waiting, strict=True)
                steps += [Step(Action.START, gang.id) for gang, at in pairs if at]
                try:
                    verify_relocation(problem, replace(target, steps=tuple(steps)))
                except InvalidSolutionError:
                    continue
                return count
    raise AssertionError("all parked must do")


def test_no_order_of_random_moves_parks_fewer_jobs() -> None:
    parked = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(3, 7))
        units = int(rng.integers(1, 3))
        before, after = (shuffled(rng, size, units) for _ in range(2))
        jobs = [
            PlacedJob(str(number), request(size, 1, units=asked), on(node), 1.0, 1.0)
            for number, (asked, node) in enumerate(before)
        ]
        targets: list[Places | None] = []
        free = np.full(size, units)
        for job, (_, node) in zip(jobs, after, strict=False):
            asked = int(job.request.per_node[0])
            there = [one for one in np.roll(np.arange(size), -node).tolist() if free[one] >= asked]
            targets.append(on(there[0]) if there else None)
            free[there[:1]] -= asked
        targets += [None] * (len(jobs) - len(targets))
        problem = problem_of(3, size, jobs, [WaitingGang("g", request(size, 1, 1), 1.0)], units=units)
        found = ordered(problem, targets, [()])
        verify_relocation(problem, found.relocation)
        assert found.is_least
        least = fewest_parked(problem, found.relocation)
        assert len(found.relocation.parked) == least, seed
        parked += least
    assert parked > 20


def test_of_1000_random_plans_none_breaks_a_rule_at_any_moment() -> None:
    moves = parked = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        size, units = int(rng.integers(4, 10)), int(rng.integers(1, 4))
        before, after = (shuffled(rng, size, units) for _ in range(2))
        jobs = [
            PlacedJob(str(number), request(size, 1, units=asked, alone=asked == units), on(node), 1.0, 1.0)
            for number, (asked, node) in enumerate(before)
        ]
        free, is_alone = np.full(size, units), np.zeros(size, dtype=np.bool_)
        targets: list[Places | None] = []
        for number, job in enumerate(jobs):
            asked, node = int(job.request.per_node[0]), after[number % len(after)][1]
            there = [
                one
                for one in np.roll(np.arange(size), -node).tolist()
                if free[one] >= asked and not is_alone[one] and (asked < units or free[one] == units)
            ]
            targets.append(on(there[0]) if there else None)
            free[there[:1]] -= asked
            is_alone[there[:1]] = asked == units
        problem = problem_of(3, size, jobs, [WaitingGang("g", request(size, 1, 1), 1.0)], units=units)
        (idle,) = np.nonzero((free > 0) & ~is_alone)
        plan = ordered(problem, targets, [on(int(idle[0])) if len(idle) else ()]).relocation
        verify_relocation(problem, plan)
        assert broken_rule(problem, plan) is None, seed
        moves += len(plan.moved(problem))
        parked += len(plan.parked)
    assert moves > 1000
    assert parked > 50


def shuffled(rng: np.random.Generator, size: int, units: int) -> list[tuple[int, int]]:
    """Return units and node of up to six jobs that fit together."""
    free, found = np.full(size, units), []
    for _ in range(6):
        asked = int(rng.integers(1, units + 1))
        there = np.flatnonzero(free >= asked)
        if len(there):
            node = int(rng.choice(there))
            free[node] -= asked
            found.append((asked, node))
    return found


def test_steps_are_carried_out_one_by_one_when_a_solution_is_verified() -> None:
    problem, solution = circle("a", "b")

    def fault(*steps: tuple[str, str]) -> str:
        with pytest.raises(InvalidSolutionError) as error:
            verify_relocation(problem, replace(solution, steps=tuple(Step(Action(one), job) for one, job in steps)))
        return str(error.value)

    assert fault(("move", "a"), ("move", "b")) == "job 'a' asks for 2 gpus on node 1, 0 are free"
    assert fault() == "the step that stops, moves or starts job 'a' is missing"
    not_said = "the solution does not have this action for the job, or has it twice"
    assert fault(("start", "a")) == f"step 1, start 'a': {not_said}"
    assert fault(("stop", "a")) == f"step 1, stop 'a': {not_said}"
    assert fault(("park", "g")) == f"step 1, park 'g': {not_said}"
    assert fault(("park", "a"), ("park", "a")) == f"step 2, park 'a': {not_said}"
    assert fault(("park", "a"), ("move", "b"), ("move", "b")) == f"step 3, move 'b': {not_said}"
    assert fault(("stop", "x")) == "step 1, stop 'x': the job is not in the instance"


def test_a_job_that_stays_must_not_be_parked_and_put_back() -> None:
    fixed = PlacedJob("f", request(SIZE, 1), on(5))
    problem = problem_of(3, SIZE, [fixed], [WaitingGang("g", request(SIZE, 1), 1.0)])
    steps = (Step(Action.PARK, "f"), Step(Action.MOVE, "f"))
    with pytest.raises(InvalidSolutionError, match="step 1, park 'f'"):
        verify_relocation(problem, Relocation((on(5),), ((),), steps))


def test_a_broken_rule_is_named_with_its_job_and_node() -> None:
    gang = WaitingGang("g", request(SIZE, 2, within=True))
    fixed = PlacedJob("f", request(SIZE, 1), on(5))
    problem = problem_of(3, SIZE, [movable("a", 0), fixed], [gang], emptied=[4])

    def fault(running: list[Places | None], waiting: Places) -> str:
        with pytest.raises(InvalidSolutionError) as error:
            verify_relocation(problem, Relocation(tuple(running), (waiting,)))
        return str(error.value)

    assert fault([on(0), on(5)], ()) == "job 'g' keeps waiting, but it must start"
    assert fault([on(0), None], on(1, 2)) == "job 'f' is stopped, which it must not be"
    assert fault([on(0), on(3)], on(1, 2)) == "job 'f' is moved, which it must not be"
    assert fault([on(0), on(5)], on(2, 3)) == "job 'g' spans 2 groups of level 1, may span 1"
    assert fault([on(4), on(5)], on(1, 2)) == "job 'a' is on node 4 at the end, which has to be empty"
    assert fault([on(0), on(5)], on(0, 1)) == "the step that stops, moves or starts job 'g' is missing"


def test_a_problem_without_anything_to_do_or_with_jobs_on_each_other_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="there is nothing to do"):
        problem_of(3, SIZE, [movable("a", 0)], [])
    with pytest.raises(InvalidProblemError, match="job 'b' asks for 2 gpus on node 0, 0 are free"):
        problem_of(3, SIZE, [movable("a", 0), movable("b", 0)], [], emptied=[1])
    with pytest.raises(InvalidProblemError, match=r"running\[1\].id: job 'a' is given twice"):
        problem_of(3, SIZE, [movable("a", 0), movable("a", 1)], [], emptied=[1])
    with pytest.raises(InvalidProblemError, match="job 'a' runs already"):
        problem_of(3, SIZE, [movable("a", 0)], [WaitingGang("a", request(SIZE, 1))])
    huge = PlacedJob("a", request(SIZE, 1), (NodeTasks(0, 2**62),))
    with pytest.raises(InvalidProblemError, match=r"must be within 1 \.\. 1e"):
        problem_of(3, SIZE, [huge], [], emptied=[1])


def test_an_instance_cannot_be_changed_through_the_arrays_it_was_made_of() -> None:
    problem = problem_of(3, SIZE, [], [], emptied=[1])
    assert not problem.emptied.flags.writeable
    assert not problem.capacity.flags.writeable


@pytest.mark.parametrize("seed", range(20))
def test_a_problem_is_the_same_after_it_is_written_and_read(seed: int) -> None:
    problem = random_problem(seed)
    codec = get_kind("relocation").codec
    header = {"format": "allocopt-instance", "version": 1, "kind": "relocation", "name": problem.name}
    keys = codec.keys_of(problem)
    again = codec.problem_of(codec.instance_model.model_validate({**header, **keys}))
    assert codec.keys_of(again) == keys
    assert isinstance(again, RelocationProblem)
    assert [job.places for job in again.running] == [job.places for job in problem.running]
    for one, two in zip((*problem.running, *problem.waiting), (*again.running, *again.waiting), strict=True):
        assert one.request.masks.tolist() == two.request.masks.tolist()
        assert one.request[:5] + one.request[8:] == two.request[:5] + two.request[8:]


def test_large_running_jobs_are_drawn_where_they_are_asked_for() -> None:
    tree = FatTreeOptions(pods=1, leaves_per_pod=32, nodes_per_leaf=16)
    drawn = {
        share: synthetic_relocation("a", np.random.default_rng(1), tree, large=share).running for share in (0.0, 0.3)
    }
    most = {share: max(len(job.places) for job in jobs) for share, jobs in drawn.items()}
    assert most == {0.0: 16, 0.3: 64}
