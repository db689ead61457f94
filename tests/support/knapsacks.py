"""Knapsack problems for tests, and their optima by looking at every selection."""

import itertools
import math
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem, Reward, Selection


def knapsack(
    sizes: Sequence[int],
    free: int,
    reward: str = "capability",
    waits: Sequence[float] | None = None,
    estimates: Sequence[float] | None = None,
    values: Sequence[float] | None = None,
    **changes: object,
) -> KnapsackProblem:
    """Make a problem of one resource; what is left out is 1, 2, 3, ..."""
    rising = list(range(1, len(sizes) + 1))
    columns = zip(sizes, waits or rising, estimates or rising, values or rising, strict=True)
    jobs = tuple(
        KnapsackJob(f"job-{number}", {"nodes": size}, float(wait), float(estimate), float(value))
        for number, (size, wait, estimate, value) in enumerate(columns)
    )
    return KnapsackProblem({"nodes": free}, jobs, Reward(reward), **changes)  # type: ignore[arg-type]


def value_of(problem: KnapsackProblem, chosen: Sequence[int]) -> float:
    """Objective of a selection, written out from the paper."""
    jobs = [problem.jobs[number] for number in chosen]
    left = [job for number, job in enumerate(problem.jobs) if number not in chosen]
    if problem.reward is Reward.LINEAR:
        return math.fsum(job.value for job in jobs)  # type: ignore[misc]
    if problem.reward is Reward.CAPACITY:
        return math.fsum(-1.0 / job.estimate_s for job in left) / len(problem.jobs)  # type: ignore[operator]
    resource = problem.resources[0]
    sizes = [job.request.get(resource, 0) for job in jobs]
    longest = max(job.wait_s for job in problem.jobs)  # type: ignore[type-var]
    w1, w2, w3 = problem.weights
    value = w3 * (problem.used[resource] + sum(sizes)) / problem.total[resource]
    if jobs:
        value += w2 * sum(sizes) / len(jobs) / problem.total[resource]
        if longest:
            value += w1 * math.fsum(job.wait_s for job in jobs) / len(jobs) / longest  # type: ignore[misc]
    return value


def packs(sizes: Sequence[int], slots: Sequence[int]) -> bool:
    """Whether the jobs fit into the slots, by trying every way."""
    if not sizes:
        return True
    tried = set()
    for index, room in enumerate(slots):
        if room >= sizes[0] and room not in tried:
            tried.add(room)
            rest = [*slots[:index], room - sizes[0], *slots[index + 1 :]]
            if packs(sizes[1:], rest):
                return True
    return False


def selections(problem: KnapsackProblem) -> Iterator[tuple[int, ...]]:
    """All sets of jobs that fit."""
    for count in range(len(problem.jobs) + 1):
        for chosen in itertools.combinations(range(len(problem.jobs)), count):
            jobs = [problem.jobs[number] for number in chosen]
            asked = {name: sum(job.request.get(name, 0) for job in jobs) for name in problem.resources}
            if any(asked[name] > problem.capacity[name] for name in problem.resources):
                continue
            sizes = [job.request.get(problem.resources[0], 0) for job in jobs]
            if problem.slots is None or packs(sorted(sizes, reverse=True), problem.slots):
                yield chosen


def best_value(problem: KnapsackProblem) -> float:
    """Largest objective of all selections."""
    return max(value_of(problem, chosen) for chosen in selections(problem))


@st.composite
def knapsacks(
    draw: st.DrawFn, most_jobs: int = 7, resources: int = 1, slots: bool = False, rewards: Sequence[str] = tuple(Reward)
) -> KnapsackProblem:
    """Small problems, ties and jobs that do not fit among them."""
    names = ["nodes", "licenses", "memory"][:resources]
    capacity = {name: draw(st.integers(0 if name != "nodes" else 1, 15)) for name in names}
    used = {"nodes": draw(st.integers(0, 5))}
    reward = Reward(draw(st.sampled_from(rewards)))
    numbers = st.one_of(st.integers(0, 5), st.floats(0, 1000, allow_subnormal=False))
    jobs = []
    for number in range(draw(st.integers(1, most_jobs))):
        request = {"nodes": draw(st.integers(1, 8)), **{name: draw(st.integers(0, 8)) for name in names[1:]}}
        wait, value = float(draw(numbers)), float(draw(numbers)) - draw(st.integers(0, 3))
        jobs.append(KnapsackJob(f"job-{number}", request, wait, float(draw(st.integers(1, 100))), value))
    weights = draw(st.sampled_from([(1 / 3, 1 / 3, 1 / 3), (1.0, 0.0, 0.0), (0.2, 0.0, 3.0), (0.0, 2.0, 0.5)]))
    pieces = None
    if slots:
        cuts = sorted(draw(st.sets(st.integers(1, max(1, capacity["nodes"] - 1)), max_size=2)))
        edges = [0, *(cut for cut in cuts if cut < capacity["nodes"]), capacity["nodes"]]
        pieces = tuple(high - low for low, high in itertools.pairwise(edges))
    return KnapsackProblem(capacity, tuple(jobs), reward, weights, {}, used, pieces, "drawn")


def selection(*jobs: int, slots: tuple[int, ...] = ()) -> Selection:
    """Make a selection."""
    return Selection(jobs, slots)
