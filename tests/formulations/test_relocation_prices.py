"""Prices of nodes: bounds on relocations, beside the costs of looking at every way."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from support.relocations import best_relocation, on, problem_of, random_problem, request

from allocopt.cluster.options import FatTreeOptions
from allocopt.formulations.backends.highs import solve_program
from allocopt.formulations.backends.program import Request
from allocopt.formulations.relocation.cells import Cells
from allocopt.formulations.relocation.freed_nodes import FreedNodes
from allocopt.formulations.relocation.prices import Prices
from allocopt.formulations.relocation.program import RelocationModel
from allocopt.problems.relocation.generate import synthetic_relocation
from allocopt.problems.relocation.problem import PlacedJob, RelocationProblem, WaitingGang
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Status


def priced_problems(seeds: range) -> Iterator[tuple[RelocationProblem, Prices]]:
    """Yield the random problems that have prices and an answer."""
    for seed in seeds:
        problem = random_problem(seed)
        if all(problem.running[number].may_leave for number in problem.leaving):
            prices = Prices.of(problem, Cells.of(problem))
            if prices is not None and best_relocation(problem) < math.inf:
                yield problem, prices


def test_no_relocation_costs_less_than_the_bound() -> None:
    met = priced = 0
    for problem, prices in priced_problems(range(400)):
        best = best_relocation(problem)
        assert prices.bound <= best + 1e-9, problem.name
        priced += best > 0
        met += 0 < best <= prices.bound + 1e-9
    assert priced > 50
    assert met > priced / 4


def test_no_relocation_that_gives_a_gang_nodes_of_a_group_costs_less_than_that_group_says() -> None:
    groups = 0
    for problem, prices in priced_problems(range(250)):
        for number, least_by_group in enumerate(prices.least_cost.tolist()):
            for group, least in enumerate(least_by_group):
                nodes = frozenset(np.flatnonzero(problem.groups[0] == group).tolist())
                assert least <= best_relocation(problem, (number, nodes)) + 1e-9, (problem.name, number, group)
                groups += least > prices.bound
    assert groups > 20


def freed_by_looking_at_every_way(problem: RelocationProblem, group: int, count: int) -> float:
    """Return the least cost of so many nodes of a group, over all sets of items, whole nodes being asked for.

    A job pays the same for each node that it could make empty; those of a group that it has alone, it leaves together.
    """
    members = np.flatnonzero(problem.groups[0] == group).tolist()
    jobs_of = {node: [job for job in problem.running if node in dict(job.places)] for node in range(problem.size)}
    usable = {node for node, jobs in jobs_of.items() if all(job.stop_cost is not None for job in jobs)}
    of_node = {
        job.id: (job.stop_cost or 0.0) / max(1, sum(node in usable for node, _ in job.places))
        for job in problem.running
    }
    items: list[tuple[int, float]] = [(1, 0.0) for node in members if not jobs_of[node]]
    for job in problem.running:
        alone = [node for node, _ in job.places if node in members and node in usable and len(jobs_of[node]) == 1]
        items.append((len(alone), len(alone) * of_node[job.id]))
    for node in members:
        if node in usable and len(jobs_of[node]) > 1:
            items.append((1, sum(of_node[job.id] for job in jobs_of[node])))
    ways = itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(items) + 1))
    return min((sum(cost for _, cost in way) for way in ways if sum(n for n, _ in way) >= count), default=math.inf)


@pytest.mark.parametrize("seed", range(20))
def test_freed_nodes_cost_what_looking_at_every_set_of_items_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free, running = np.full(9, 2), []
    for number in range(7):
        # Jobs of a whole node or half of one, so that two may share one.
        units = int(rng.integers(1, 3))
        there = np.flatnonzero(free >= units)
        if len(there):
            nodes = np.sort(rng.choice(there, size=min(len(there), int(rng.integers(1, 4))), replace=False))
            free[nodes] -= units
            cost = None if rng.random() < 0.2 else float(rng.integers(1, 9))
            running.append(PlacedJob(f"r{number}", request(9, len(nodes), units), on(*nodes.tolist()), cost))
    problem = problem_of(3, 9, running, [WaitingGang("g", request(9, 2))])
    freed = FreedNodes(problem, Cells.of(problem))
    for group in range(3):
        for count in range(freed.most + 1):
            slow = freed_by_looking_at_every_way(problem, group, count)
            assert freed.least[group, count] == pytest.approx(slow), (group, count)


def middling(seed: int, movable: float = 0.0) -> RelocationProblem:
    """Draw a problem of 96 nodes in 12 racks, with two gangs of segments and one that needs a rack."""
    rng = np.random.default_rng(seed)
    options = {
        "load": 0.95,
        "shared": 0.0 if movable else 0.15,
        "size": 6,
        "gangs": 3,
        "movable": movable,
        "compact": True,
    }
    made = synthetic_relocation(
        f"middling-{seed}", rng, FatTreeOptions(pods=1, leaves_per_pod=12, nodes_per_leaf=8), **options
    )
    inside, *others = made.waiting
    asked = others[0].request
    above = (0,) * (len(asked.most_groups) - 1)
    shapes = [(8, 0, 4), (10, 2, 0)]
    gangs = [
        WaitingGang(
            gang.id,
            asked._replace(
                tasks=nodes,
                least_nodes=nodes,
                most_nodes=nodes,
                most_groups=(racks, *above),
                segments=(segment, *above) if segment else (),
            ),
            None if seed % 2 else 6.0,
        )
        for gang, (nodes, racks, segment) in zip(others, shapes, strict=True)
    ]
    return RelocationProblem(
        made.topology, made.resources, made.capacity, made.running, (inside, *gangs), made.emptied, made.name
    )


@pytest.mark.parametrize("movable", [0.0, 0.5])
def test_what_is_proved_by_parts_is_what_the_whole_program_says(movable: float) -> None:
    by_parts = 0
    for seed in range(8):
        problem = middling(seed, movable)
        result = get_solver("highs", None, "relocation").solve(problem, Budget(60.0), 0)
        model = RelocationModel(problem)
        program = model.program()
        outcome = solve_program(Request(program, 60.0), lambda progress: None)
        if outcome.chosen is None:
            assert result.status is Status.INFEASIBLE
            continue
        waiting = sum(gang.wait_cost or 0.0 for gang in problem.waiting)
        assert (result.status, result.objective) == (
            Status.OPTIMAL,
            pytest.approx(program.cost_of(outcome.chosen) + waiting),
        )
        prices = Prices.of(problem, Cells.of(problem))
        assert prices is not None
        assert prices.bound <= result.objective + 1e-9
        by_parts += prices.is_used.sum() <= len(prices.is_used) // 2
    assert by_parts > 0


def test_a_part_without_an_answer_says_nothing_of_the_whole() -> None:
    jobs = [PlacedJob(f"r{node}", request(8, 1), on(node), 1.0) for node in range(8)]
    problem = problem_of(2, 8, jobs, [WaitingGang("g", request(8, 2, within=True))])
    cells, nowhere = Cells.of(problem), np.zeros((1, 4), dtype=np.bool_)
    model = RelocationModel(problem, cells=cells, within=nowhere, least_beyond=2.0)
    assert solve_program(Request(model.program(), 10.0), lambda progress: None).chosen is None
    assert not model.is_whole()
    assert model.bound_of(7.0) == 2.0
    assert get_solver("highs", None, "relocation").solve(problem, Budget(10.0), 0).objective == 2.0
