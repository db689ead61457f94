"""Compare the package with the slow references, on random windows and traces.

As a script it runs seeds FIRST to LAST - 1 and prints what differs, what was counted and what was drawn, in `tests`:
``PYTHONPATH=. python -m support.against_references KIND FIRST LAST``, where KIND is ``windows``, or one of the
sorts of traces: any, dense, overrun, blocks, orders, sequential, shares, downtimes, scores, predictions.
"""

import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from support.random_clusters import Case, coverage, coverage_table, random_case
from support.random_placements import Instance, random_window
from support.random_placements import coverage as window_coverage
from support.slow_cluster import DEPTH, Running, dropped_because, simulate_slowly, slow_jobs
from support.slow_placements import best_cost, check, choices, splits, window_of
from support.slow_scores import network_named

import allocopt
from allocopt.errors import InvalidProblemError, InvalidSolutionError, WrongAnswerError
from allocopt.heuristics.scheduling.queue_orders import NetworkOrder
from allocopt.placement import NodeTasks, Placements
from allocopt.problems.instances import problem_from_object
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.simulator import EventOrder, Rules
from allocopt.simulator.rules import QueueOrder
from allocopt.simulator.scheduler import BACKFILLS, AnyScheduler, ListScheduler, get_policy
from allocopt.simulator.shared.admission import admitted
from allocopt.solving.result import Result, Status
from allocopt.traces.workload import Workload

# Traces on clusters


def _order(name: str) -> QueueOrder:
    """Return the queue order of a name, such as ``sjf``, or ``network-17`` for a random network."""
    order = NetworkOrder(network_named(name)) if name.startswith("network") else get_policy(name)
    assert isinstance(order, QueueOrder)
    return order


Row = tuple[int, float, float, dict[int, int]]
"""Of a job that ran: its number, start, end, and tasks by node."""


def engine_rows(case: Case, over: Callable[[ListScheduler], AnyScheduler] = lambda built_in: built_in) -> list[Row]:
    """Return what the engine makes of a trace, by its built-in scheduler or by one that stands over it."""
    try:
        kept = admitted(case.workload, case.cluster, in_nodes=False, skip_oversized=True)
    except InvalidProblemError as error:
        if "no job" not in str(error):
            raise
        return []
    if not len(kept):
        return []
    order, _, backfill = case.policy.partition("+")
    kind, tried = BACKFILLS[backfill or "none"], case.backfill_order
    scheduler = ListScheduler(_order(order), kind, None if tried is None else _order(tried), predicts=case.predicts)
    events = EventOrder.SEQUENTIAL if case.is_sequential else EventOrder.BATCHED
    rules = Rules(events, kill_at_limit=case.kill_at_limit)
    found = allocopt.simulate(
        *(kept, case.cluster, over(scheduler), rules), allocator=case.allocator, downtimes=case.downtimes
    )
    assert found.nodes is not None
    assert found.tasks is not None
    return [
        (int(job), float(start), float(end), dict(zip(nodes.tolist(), tasks.tolist(), strict=True)))
        for job, start, end, nodes, tasks in zip(
            kept.ids, found.start, found.end, found.nodes, found.tasks, strict=True
        )
    ]


def slow_rows(case: Case, counts: Counter[str], depth: int = DEPTH) -> list[Row]:
    """Return what the slow simulator makes of a trace, and count what happens."""
    kept = []
    for job in slow_jobs(case.workload, case.cluster):
        why = dropped_because(case.cluster, job)
        counts[f"jobs dropped: {why}" if why else "jobs admitted"] += 1
        if not why:
            kept.append(job.number)
    if not kept:
        return []
    own = only(case.workload, kept)
    found: list[Running] = simulate_slowly(
        own,
        case.cluster,
        case.policy,
        backfill_order=case.backfill_order,
        allocator=case.allocator,
        kill_at_limit=case.kill_at_limit,
        is_sequential=case.is_sequential,
        depth=depth,
        downtimes=case.downtimes,
        predicts=case.predicts,
        counts=counts,
    )
    return [(int(job), one.start, one.end, one.tasks) for job, one in zip(own.ids, found, strict=True)]


def only(workload: Workload, places: list[int]) -> Workload:
    """Return some jobs of a workload, with all that asks for."""
    w = workload
    columns = (w.ids, w.submit, w.run, w.processors, w.estimate)
    # Who waited for a job that is left out waits no more.
    left = set(w.ids[places].tolist())
    waits = np.array([job in left for job in w.preceding[places].tolist()], dtype=np.bool_)
    return Workload(
        w.name,
        *(column[places] for column in columns),
        requests=w.requests[places],
        users=w.users[places],
        preceding=np.where(waits, w.preceding[places], -1),
        think_s=np.where(waits, w.think_s[places], 0.0),
    )


# Windows

EQUAL = Fraction(1, 10**6)
NAMES = ("lns", "cons-tres", "best-fit", "first-fit", "auto", "highs", "cp-sat", "scip")
EXACT = ("highs", "cp-sat", "scip")
LIMIT_S = 20.0


def is_equal(a: float | Fraction, b: float | Fraction) -> bool:
    """Whether two costs are equal but for rounding."""
    a, b = Fraction(a), Fraction(b)
    return abs(a - b) <= EQUAL * max(abs(a), abs(b), Fraction(1, 1000))


def is_less(a: float | Fraction, b: float | Fraction) -> bool:
    """Whether a is less than b by more than rounding."""
    return Fraction(a) < Fraction(b) and not is_equal(a, b)


def solver_faults(obj: Instance, names: tuple[str, ...], seed: int, counts: Counter[str]) -> list[str]:
    """Return what solvers say of a window that the enumeration of all its solutions contradicts."""
    problem, best = problem_from_object(obj, "window"), best_cost(obj)
    assert isinstance(problem, PlacementProblem)
    found = []
    answers: list[dict[str, dict[int, int]]] = [{}]
    for name in names:
        limits = {"time_limit": LIMIT_S, "iterations": 300 if name == "lns" else None}
        # Even seeds check every bound, odd seeds only those that are cheap to check.
        try:
            result: Result[Any] = allocopt.solve(problem, solver=name, **limits, seed=seed, certify=seed % 2 == 0)
        except WrongAnswerError as error:
            found.append(f"{name}: {error}")
            continue
        counts[f"{name}: results"] += 1
        counts[f"{name}: {result.status}"] += 1
        if result.bound is not None:
            counts[f"{name}: bounds"] += 1
            counts[f"{name}: bounds equal to the optimum"] += is_equal(result.bound, best)
            counts[f"{name}: bounds {result.proof}"] += 1
        answer, faults = _answer(obj, problem, result, best)
        found += [f"{name}: {fault}" for fault in faults]
        answers.append(answer)
    rng = np.random.default_rng((seed, 1))
    for _ in range(20):
        found += verdict_faults(obj, problem, damaged(rng, obj, answers[int(rng.integers(len(answers)))]), counts)
    found += _twice_faults(obj, problem, answers)
    return found


def _answer(
    obj: Instance, problem: PlacementProblem, result: Result[Any], best: Fraction
) -> tuple[dict[str, dict[int, int]], list[str]]:
    faults: list[str] = []
    if result.solution is None or result.objective is None:
        return {}, ["no solution"]
    placed = {
        job: {int(node): tasks for node, tasks in on.items()} for job, on in result.solution.as_dict(problem).items()
    }
    try:
        cost = check(obj, placed)
    except ValueError as error:
        return {}, [f"invalid: {error}"]
    if not is_equal(cost, result.objective) or is_less(cost, best):
        faults.append(f"objective {result.objective}, costs {float(cost)}, optimum {float(best)}")
    if result.bound is not None and is_less(best, result.bound):
        faults.append(f"bound {result.bound} above the optimum {float(best)}")
    if result.status is Status.OPTIMAL and not (
        result.bound is not None and is_equal(result.objective, best) and is_equal(result.bound, best)
    ):
        faults.append(f"OPTIMAL {result.objective}, bound {result.bound}, optimum {float(best)}")
    if result.solver in EXACT and result.status is not Status.OPTIMAL and result.runtime_s < LIMIT_S:
        faults.append(f"ended with {result.status}")
    return placed, faults


def verdict_faults(
    obj: Instance, problem: PlacementProblem, placed: dict[str, dict[int, int]], counts: Counter[str]
) -> list[str]:
    """Return how the verdict of `verify` on a solution differs from that of the reference, if it does."""
    try:
        ours: Fraction | str = check(obj, placed)
    except ValueError as error:
        ours = str(error)
    written = {job: {str(node): tasks for node, tasks in on.items()} for job, on in placed.items()}
    try:
        theirs: float | str = allocopt.verify(problem, Placements.from_dict(problem, written))
    except InvalidSolutionError as error:
        theirs = str(error)
    counts[f"verdicts: {'invalid' if isinstance(ours, str) else 'valid'}"] += 1
    if isinstance(ours, str) and isinstance(theirs, str):
        return []
    if isinstance(ours, str) or isinstance(theirs, str) or not is_equal(ours, theirs):
        return [f"verify says {theirs} of {placed}, the reference {ours}"]
    return []


def _twice_faults(obj: Instance, problem: PlacementProblem, answers: list[dict[str, dict[int, int]]]) -> list[str]:
    """Return a fault if a node that a job gets twice passes."""
    for placed in answers:
        for at, job in enumerate(obj["jobs"]):
            wide = [node for node, tasks in placed.get(job["id"], {}).items() if tasks >= 2]
            if not wide:
                continue
            rows = [[NodeTasks(*one) for one in sorted(placed.get(one["id"], {}).items())] for one in obj["jobs"]]
            rows[at] = [one for one in rows[at] if one.node != wide[0]]
            rows[at] += [NodeTasks(wide[0], 1), NodeTasks(wide[0], placed[job["id"]][wide[0]] - 1)]
            try:
                allocopt.verify(problem, Placements(tuple(map(tuple, rows))))
            except InvalidSolutionError:
                return []
            return [f"a node twice is valid: {rows}"]
    return []


def damaged(rng: np.random.Generator, obj: Instance, answer: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    """Return a solution that was changed once or more, right or not."""
    placed = {job: dict(on) for job, on in answer.items()}
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        name = str(rng.choice([job["id"] for job in obj["jobs"]]))
        on = _changed(rng, obj, name, placed)
        placed.pop(name, None)
        if on or rng.random() < 0.1:
            placed[name] = on
    return placed


def _changed(rng: np.random.Generator, obj: Instance, name: str, placed: dict[str, dict[int, int]]) -> dict[int, int]:
    size, on = len(next(iter(obj["free"].values()))), dict(placed.get(name, {}))
    job = next(job for job in obj["jobs"] if job["id"] == name)
    some, of_its = int(rng.integers(size)), int(rng.choice([*on, -1]))
    how = str(rng.choice(("more", "moved", "fewer", "merged", "outside", "none", "right", "swapped", "any", "any")))
    if how == "more":
        on[some] = on.get(some, 0) + 1
    elif how in ("moved", "merged") and of_its in on:
        tasks = 1 if how == "moved" else on[of_its]
        on[of_its] -= tasks
        if not on[of_its]:
            del on[of_its]
        on[some] = on.get(some, 0) + tasks
    elif how == "fewer":
        on.pop(of_its, None)
    elif how == "outside":
        on[int(rng.choice([-1, size, size + 5]))] = 1
    elif how == "none":
        on[some] = int(rng.choice([0, -1]))
    elif how == "right":
        window = window_of(obj)
        options = choices(window, next(one for one in window.jobs if one.id == name))
        on = dict(options[int(rng.integers(len(options)))].on) if options else {}
    elif how == "swapped":
        other = str(rng.choice(list(placed))) if placed else name
        on, placed[other] = placed.get(other, {}), on
    elif how == "any":
        number = int(rng.integers(1, min(size, job["tasks"]) + 1))
        ways = list(splits(job["tasks"], number))
        nodes = rng.permutation(size)[:number].tolist()
        on = dict(zip(nodes, ways[int(rng.integers(len(ways)))], strict=True))
    return on


# Campaigns


def _windows(first: int, last: int, counts: Counter[str]) -> int:
    objects, wrong = [], 0
    for seed in range(first, last):
        objects.append(random_window(np.random.default_rng(seed)))
        faults = solver_faults(objects[-1], NAMES, seed, counts)
        wrong += bool(faults)
        for fault in faults:
            print(f"seed {seed}: {fault}", flush=True)
    # What binds is found by enumeration, once a field.
    print(window_coverage(objects[:1000]))
    return wrong


def _traces(kind: str, first: int, last: int, counts: Counter[str]) -> int:
    wrong = 0
    for seed in range(first, last):
        case = random_case(seed, kind)
        coverage(case, counts)
        if engine_rows(case) != slow_rows(case, counts):
            wrong += 1
            print(f"seed {seed}: {case.label}", flush=True)
    return wrong


def main(kind: str, first: int, last: int) -> None:
    """Run a campaign."""
    counts: Counter[str] = Counter()
    wrong = _windows(first, last, counts) if kind == "windows" else _traces(kind, first, last, counts)
    print(coverage_table(counts))
    print(f"{kind}: seeds {first} to {last - 1}, mismatches: {wrong}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
