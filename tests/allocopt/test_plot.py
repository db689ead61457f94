"""Pictures show the data: a box for each node of a job, areas that are node seconds, and means at their places."""

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from support.coallocations import coallocations
from support.coallocations import solutions as ways_to_share
from support.placements import small_placements
from support.simulations import machine_of, small_workloads
from support.windows import windows

import allocopt
from allocopt import plot
from allocopt.cluster import Cluster, ClusterNode
from allocopt.cluster.options import FatTreeOptions
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import FatTree, Tree
from allocopt.coallocation import Coallocation, GuestPlace
from allocopt.errors import MissingPackageError, UsageError
from allocopt.knapsack import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.placement import NodeTasks
from allocopt.problems.kind import kind_of
from allocopt.problems.topology.generate import drawn_window
from allocopt.relocation import PlacedJob, Relocation, RelocationProblem, WaitingGang
from allocopt.report.html.timeline import packed
from allocopt.simulator.schedule import Schedule
from allocopt.solving.result import Result, Status, StopReason
from allocopt.topology import Allocation, Job, TopologyProblem
from allocopt.traces.generators import lublin_workload
from allocopt.traces.variants import Interval
from allocopt.traces.workload import Workload

matplotlib.use("Agg")

Box = tuple[float, float, float, float]
"""Left, lower, right and upper end of a rectangle, in the units of the axes."""


@pytest.fixture(autouse=True)
def no_figures_left() -> Iterator[None]:
    yield
    plt.close("all")


def collections_of(axes: Axes) -> dict[str, PolyCollection]:
    return {str(one.get_label())[1:]: one for one in axes.collections if isinstance(one, PolyCollection)}


def boxes_in(one: PolyCollection) -> list[Box]:
    found = []
    for path in one.get_paths():
        (left, lower), (right, upper) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        found.append((float(left), float(lower), float(right), float(upper)))
    return found


def boxes_of(axes: Axes) -> dict[str, list[Box]]:
    found: dict[str, list[Box]] = {}
    for one in axes.collections:
        if isinstance(one, PolyCollection):
            found.setdefault(str(one.get_label())[1:], []).extend(boxes_in(one))
    return found


def counts_of(axes: Axes) -> dict[str, int]:
    """Boxes by label, without frames."""
    return {label: len(boxes) for label, boxes in boxes_of(axes).items() if label != "frames"}


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def overlapping(boxes: list[Box]) -> list[tuple[Box, Box]]:
    """Pairs of boxes with a common area."""
    return [
        (a, b)
        for number, a in enumerate(boxes)
        for b in boxes[:number]
        if min(a[2], b[2]) - max(a[0], b[0]) > 1e-9 and min(a[3], b[3]) - max(a[1], b[1]) > 1e-9
    ]


def result_of(solution: object, objective: float | None = 0.0, bound: float | None = None) -> Result[Any]:
    return Result(Status.FEASIBLE, StopReason.COMPLETED, objective, bound, 0.0, solution, 0, "mine", "1")


# Allocations


@given(windows(most_idle=12, most_jobs=8))
def test_a_job_of_a_window_has_one_square_for_each_of_its_nodes(problem: TopologyProblem) -> None:
    result = allocopt.solve(problem, solver="greedy")
    axes = plot.allocation(problem, result)
    held = {job.id: job.nodes for job in problem.jobs}
    idle, size = len(problem.idle_nodes), problem.topology.size
    expected = {**held, "free": idle, "closed": size - idle}
    assert counts_of(axes) == {label: count for label, count in expected.items() if count}
    squares = boxes_of(axes)
    # Squares of jobs are those of idle nodes, and no two jobs have the same one.
    of_jobs = [box for job in held for box in squares[job]]
    assert len({tuple(np.round(box, 6)) for box in of_jobs}) == sum(held.values())
    assert {tuple(np.round(box, 6)) for box in of_jobs} <= {tuple(np.round(box, 6)) for box in squares["free"]}
    assert overlapping(squares["free"] + squares.get("closed", [])) == []
    plt.close(axes.figure)


def test_nodes_of_a_leaf_switch_are_in_the_same_frame() -> None:
    tree = Tree.from_levels([{"a": [0, 3, 4], "b": [1, 2], "c": [5]}, {"p": ["c", "a"], "q": ["b"]}], [2, 4, 6])
    problem = TopologyProblem(tree, np.arange(6), (Job("x", 3), Job("y", 2), Job("z", 1)))
    solution = Allocation((np.array([0, 3, 4]), np.array([1, 2]), np.array([5])))
    axes = plot.allocation(problem, result_of(solution))
    found = boxes_of(axes)

    def frame_of(box: Box) -> list[int]:
        return [
            number
            for number, frame in enumerate(found["frames"])
            if frame[0] < box[0] and frame[1] < box[1] and box[2] < frame[2] and box[3] < frame[3]
        ]

    frames = {job: {tuple(frame_of(box)) for box in found[job]} for job in "xyz"}
    assert [len(own) for own in frames.values()] == [1, 1, 1]
    assert len(set.union(*frames.values())) == 3
    assert {text.get_text() for text in axes.texts} == {"a", "b", "c"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["p", "q"]


def test_the_legend_counts_nodes_and_names_what_is_free_or_not() -> None:
    problem = TopologyProblem(FatTree(1, 2, 4), np.arange(6), (Job("7", 3), Job("b", 1)))
    axes = plot.allocation(problem, allocopt.solve(problem))
    assert legend_of(axes) == ["in use or drained", "free", "job 7: 3 nodes", "b: 1 node"]
    assert legend_of(plot.allocation(problem)) == ["in use or drained", "free"]
    full = TopologyProblem(FatTree(1, 2, 4), np.arange(8), (Job("a", 8),))
    assert legend_of(plot.allocation(full, allocopt.solve(full))) == ["a: 8 nodes"]


@given(small_placements())
def test_jobs_that_share_a_node_divide_its_square(problem: Any) -> None:
    result = allocopt.solve(problem, solver="first-fit")
    axes = plot.allocation(problem, result)
    squares, counts = boxes_of(axes), counts_of(axes)
    placed = {job.id: len(places) for job, places in zip(problem.jobs, result.solution.of_jobs, strict=True)}
    names = {f"job {job}" if job.isdigit() else job: count for job, count in placed.items()}
    assert {name: counts.get(name, 0) for name in names} == names
    assert overlapping([box for name in names for box in squares.get(name, [])]) == []
    closed = problem.in_use | ~problem.free.any(axis=1)
    assert counts.get("closed", 0) == closed.sum()
    plt.close(axes.figure)


def test_before_and_after_a_relocation_stopped_and_moved_jobs_are_marked() -> None:
    size = 8
    tree = Tree.from_levels([{"r0": [0, 1, 2, 3], "r1": [4, 5, 6, 7]}], [2, 4])

    def request(nodes: int) -> Any:
        masks, nothing = np.ones((1, size), dtype=np.bool_), np.zeros(1, dtype=np.int64)
        return ClusterRequest(nodes, nodes, nodes, 1, False, np.array([2]), nothing, masks, (0,), 0)

    def on(*nodes: int) -> tuple[NodeTasks, ...]:
        return tuple(NodeTasks(node, 1) for node in nodes)

    running = (
        PlacedJob("s", request(1), on(0), stop_cost=1.0),
        PlacedJob("m", request(2), on(1, 2), move_cost=1.0),
        PlacedJob("k", request(2), on(3, 4)),
    )
    gangs = (WaitingGang("g", request(3)), WaitingGang("h", request(1), 1.0))
    emptied = np.arange(size) == 7
    problem = RelocationProblem(tree, ("gpus",), np.full((size, 1), 2), running, gangs, emptied)
    solution = Relocation((None, on(5, 6), on(3, 4)), (on(0, 1, 2), ()), (("stop", "s"), ("move", "m"), ("start", "g")))
    axes = plot.allocation(problem, result_of(solution))
    counts = {"free": 14, "closed": 2, "s stops": 1, "m moves": 4, "stays": 4, "g starts": 3}
    assert counts_of(axes) == counts
    assert [text.get_text() for text in axes.texts].count("before") == 1
    drawn = collections_of(axes)
    assert drawn["s stops"].get_hatch() is not None
    middle = sum(axes.get_xlim()) / 2
    after = {label: sum(box[0] > middle for box in boxes) for label, boxes in boxes_of(axes).items()}
    assert (after["s stops"], after["m moves"], after["g starts"], after["stays"]) == (0, 2, 3, 2)
    assert legend_of(axes) == [
        "to be emptied",
        "free",
        "s stops: 1 node",
        "m moves: 2 nodes",
        "stays",
        "g starts: 3 nodes",
    ]
    assert counts_of(plot.allocation(problem))["running"] == 5


@given(coallocations(), st.integers(0, 50))
def test_bars_of_hosts_show_the_quotas_of_their_guests(problem: Any, which: int) -> None:
    ways = list(ways_to_share(problem))
    places = ways[which % len(ways)]
    axes = plot.allocation(problem, result_of(Coallocation(tuple(GuestPlace(*place) for place in places))))
    found = boxes_of(axes)
    quotas = {problem.guests[guest].id: (host, percent) for guest, host, percent in places}
    for guest, (host, percent) in quotas.items():
        ((left, lower, right, upper),) = found[guest]
        assert right - left == pytest.approx(percent)
        assert host < lower < upper < host + 1
    own = [right - left for left, _, right, _ in found["the host itself"]]
    assert sum(own) == pytest.approx(100 * len(problem.hosts) - sum(percent for _, percent in quotas.values()))
    plt.close(axes.figure)


def test_bars_of_a_knapsack_show_what_selected_jobs_take_of_each_resource() -> None:
    jobs = tuple(KnapsackJob(name, request, value=1.0) for name, request in (
        ("a", {"nodes": 20, "gpus": 5}), ("b", {"nodes": 10}), ("c", {"nodes": 99}),
    ))  # fmt: skip
    problem = KnapsackProblem({"nodes": 60, "gpus": 10}, jobs, Reward.LINEAR, total={"nodes": 100}, slots=(20, 30))
    axes = plot.allocation(problem, result_of(Selection((0, 1), (0, 1))))
    widths = {name: [right - left for left, _, right, _ in boxes] for name, boxes in boxes_of(axes).items()}
    assert widths["not free"] == pytest.approx([40.0])
    assert widths["a"] == pytest.approx([20.0, 50.0, 100.0])
    assert widths["b"] == pytest.approx([10.0, 100 / 3])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["100 nodes", "10 gpus", "slot 0: 20 nodes", "slot 1: 30 nodes"]
    assert "%" in axes.get_xlabel()


@pytest.mark.parametrize("kind", ["topology", "knapsack", "coallocation", "placement", "relocation"])
def test_shipped_problems_of_every_kind_are_drawn_with_and_without_a_solution(kind: str) -> None:
    shipped = {"topology": "@tiny", "coallocation": "@coallocations"}.get(kind, f"@{kind}s")
    for problem in allocopt.read_problems(shipped):
        result = allocopt.solve(problem, time_limit=2)
        for given_result in (None, result):
            axes = plot.allocation(problem, given_result)
            axes.figure.canvas.draw()
            assert axes.get_xlabel()
            assert axes.get_title() == ""


@pytest.mark.parametrize("pods", [10, 1])
def test_ten_thousand_nodes_are_a_few_collections(pods: int) -> None:
    tree = FatTreeOptions(pods=pods, leaves_per_pod=250 // pods, nodes_per_leaf=40)
    problem = drawn_window("w", np.random.default_rng(1), 4_000, 60, 10, 60, 3.0, 0.9, tree)
    axes = plot.allocation(problem, allocopt.solve(problem, solver="greedy"))
    assert len(axes.get_children()) < 80
    assert counts_of(axes)["free"] + counts_of(axes)["closed"] == 10_000
    axes.figure.canvas.draw()


def test_many_jobs_have_one_entry_that_counts_the_rest() -> None:
    problem = TopologyProblem(FatTree(2, 5, 5), np.arange(50), tuple(Job(f"j{number}", 1) for number in range(40)))
    axes = plot.allocation(problem, allocopt.solve(problem, solver="greedy"))
    assert legend_of(axes)[-1] == "and 28 more"
    assert len(legend_of(axes)) == 14


def test_the_first_sixteen_jobs_differ_also_in_grey() -> None:
    problem = TopologyProblem(FatTree(2, 2, 4), np.arange(16), tuple(Job(f"j{number}", 1) for number in range(16)))
    axes = plot.allocation(problem, allocopt.solve(problem, solver="greedy"))
    drawn = [one for label, one in collections_of(axes).items() if label.startswith("j")]
    colours = [tuple(one.get_facecolor()[0]) for one in drawn]
    looks = [
        (round(float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))), 2), one.get_hatch())
        for colour, one in zip(colours, drawn, strict=True)
    ]
    assert len(set(colours)) == 8
    same = [(a, b) for n, a in enumerate(looks) for b in looks[:n] if a[1] == b[1] and abs(a[0] - b[0]) < 0.04]
    assert len(looks) == 16
    assert [pair for pair in same if looks.index(pair[0]) < 8] == []


def test_a_kind_without_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = allocopt.read_problems("@tiny")[0]
    kind = kind_of(problem)
    monkeypatch.setattr(type(kind), "node_map", lambda *_: None)
    with pytest.raises(UsageError, match="kind 'topology' have no picture"):
        plot.allocation(problem)


def test_names_are_drawn_as_they_are() -> None:
    problem = TopologyProblem(FatTree(1, 1, 4), np.arange(4), (Job("$a$_{", 1), Job("_x", 1), Job("\n", 1)))
    axes = plot.allocation(problem, allocopt.solve(problem))
    axes.figure.canvas.draw()
    assert len(legend_of(axes)) == 4


# Schedules


def simulated(jobs: Workload, machine: str) -> Schedule:
    size = machine_of(jobs)
    machines: dict[str, Any] = {
        "pool": size,
        "nodes": Platform.whole_nodes(size),
        "racks": Platform.whole_nodes(FatTree(1, 1, size)),
        "shared": Cluster.of([ClusterNode("a", cores=size), ClusterNode("b", cores=1)], None),
    }
    return allocopt.simulate(jobs, machines[machine], "fcfs+easy")


@pytest.mark.parametrize("machine", ["pool", "nodes", "racks", "shared"])
@given(small_workloads(most_jobs=14))
def test_rectangles_of_jobs_never_overlap_in_one_unit(machine: str, jobs: Workload) -> None:
    schedule = simulated(jobs, machine)
    axes = plot.schedule(schedule)
    boxes = [box for boxes in boxes_of(axes).values() for box in boxes]
    assert overlapping(boxes) == []
    area = sum((right - left) * (upper - lower) for left, lower, right, upper in boxes)
    held = schedule.run_s @ jobs.processors
    if machine != "shared":
        assert area == pytest.approx(held)
    assert max(box[3] for box in boxes) <= max(axes.get_ylim())
    assert max(box[2] for box in boxes) <= axes.get_xlim()[1] + 1e-9
    plt.close(axes.figure)


@given(small_workloads(most_jobs=14))
def test_jobs_are_coloured_by_user_and_the_legend_names_the_users(jobs: Workload) -> None:
    schedule = simulated(jobs, "pool")
    axes = plot.schedule(schedule, by="user")
    expected: Counter[str] = Counter()
    for user, run, size in zip(jobs.user_labels, schedule.run_s.tolist(), jobs.processors.tolist(), strict=True):
        expected[user or "not known"] += run * size
    areas = {
        user: sum((right - left) * (upper - lower) for left, lower, right, upper in boxes)
        for user, boxes in boxes_of(axes).items()
    }
    assert areas == pytest.approx(dict(expected))
    assert legend_of(axes) == [user for user, _ in sorted(areas.items(), key=lambda pair: (-pair[1], pair[0]))]
    plt.close(axes.figure)


def test_more_users_than_colours_share_one() -> None:
    jobs = lublin_workload(200, 64, np.random.default_rng(0))
    jobs = Workload(
        jobs.name, jobs.ids, jobs.submit, jobs.run, jobs.processors, jobs.estimate, 64, users=np.arange(200) % 20
    )
    axes = plot.schedule(allocopt.simulate(jobs, 64, "fcfs+easy"), by="user")
    assert len(legend_of(axes)) == 8
    assert legend_of(axes)[-1] == "13 others"
    with pytest.raises(UsageError, match="by is 'colour', must be user, account, partition or None"):
        plot.schedule(allocopt.simulate(jobs, 64), by="colour")  # type: ignore[arg-type]


def test_rows_are_named_after_leaf_switches() -> None:
    tree = Tree.from_levels([{"left": [0, 2], "right": [1, 3]}], [2, 4])
    times = np.zeros(2)
    jobs = Workload("w", np.array([1, 2]), times, times + 5, np.array([2, 1]), times + 5)
    schedule = Schedule(jobs, 4, times, times, times + 5, (np.array([0, 2]), np.array([3])), tree)
    axes = plot.schedule(schedule)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["left", "right"]
    # Nodes 0 and 2 are adjacent on the axis, so that their job is one rectangle.
    assert sorted(box for boxes in boxes_of(axes).values() for box in boxes) == [(0, 0, 5, 2), (0, 3, 5, 4)]


@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 12))
def test_jobs_without_nodes_get_the_lowest_free_units(seed: int, jobs: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 20, jobs).astype(float)
    end, units = start + rng.integers(0, 9, jobs), rng.integers(1, 5, jobs)
    free_from, expected = np.full(size, -np.inf), set()
    for job in np.lexsort((end, start)).tolist():
        free = np.flatnonzero(free_from <= start[job])[: units[job]]
        free_from[free] = end[job]
        expected |= {(job, unit) for unit in free.tolist()}
    runs = list(packed(start, end, units, size))
    assert {(job, unit) for job, first, last in runs for unit in range(first, last)} == expected
    whole = Counter[int]()
    for job, first, last in packed(start, end, units):
        whole[job] += last - first
    assert whole == dict(enumerate(units.tolist()))


# Queues


def area_under(axes: Axes) -> float:
    """Area under the first line of axes, a step function."""
    x, y = (np.asarray(each, dtype=float) for each in axes.get_lines()[0].get_data())
    return float(np.diff(x) @ y[:-1])


@pytest.mark.parametrize("machine", ["pool", "nodes", "shared"])
@given(small_workloads(most_jobs=14))
def test_the_areas_under_the_lines_are_node_seconds_and_waits(machine: str, jobs: Workload) -> None:
    schedule = simulated(jobs, machine)
    axes = plot.queue(schedule)
    right = axes.figure.axes[-1]
    held = sum(
        run * size for run, size in zip(schedule.run_s.tolist(), schedule.workload.processors.tolist(), strict=True)
    )
    assert area_under(right) == pytest.approx(held)
    assert area_under(axes) == pytest.approx(sum(schedule.wait_s.tolist()))
    # On nodes of one core, cores are nodes.
    shared = "nodes" if machine_of(jobs) == 1 else "cores"
    what = {"pool": "processors", "nodes": "nodes", "shared": shared}[machine]
    assert (axes.get_ylabel(), right.get_ylabel()) == ("waiting jobs", f"{what} in use")
    assert axes.get_xlabel() == "seconds since the first submission"
    plt.close(axes.figure)


def test_long_schedules_have_axes_in_hours_or_days() -> None:
    jobs = lublin_workload(50, 64, np.random.default_rng(1))
    schedule = allocopt.simulate(jobs, 64, "fcfs+easy")
    axes = plot.queue(schedule)
    unit, seconds = axes.get_xlabel().split()[0], {"hours": 3600.0, "days": 86_400.0}
    held = float(schedule.run_s @ jobs.processors)
    assert area_under(axes.figure.axes[-1]) * seconds[unit] == pytest.approx(held)
    assert plot.schedule(schedule).get_xlabel() == axes.get_xlabel()


def test_guests_hold_processors_only_from_the_time_at_which_they_have_their_own() -> None:
    start, end = np.array([0.0, 2.0, 4.0]), np.array([10.0, 8.0, 6.0])
    jobs = Workload("w", np.arange(3), np.zeros(3), end - start, np.array([4, 2, 1]), end)
    schedule = Schedule(jobs, 6, np.zeros(3), start, end, held_from=np.array([0.0, 5.0, 6.0]))
    assert area_under(plot.queue(schedule).figure.axes[-1]) == 4 * 10 + 2 * 3
    boxes = [box for boxes in boxes_of(plot.schedule(schedule)).values() for box in boxes]
    assert sum((right - left) * (upper - lower) for left, lower, right, upper in boxes) == 4 * 10 + 2 * 3


@pytest.mark.parametrize("nodes", [None, ()])
def test_schedules_without_jobs_are_drawn_empty(nodes: tuple[()] | None) -> None:
    nothing, none = np.empty(0), np.empty(0, dtype=np.int64)
    schedule = Schedule(Workload("w", none, nothing, nothing, none, nothing), 8, nothing, nothing, nothing, nodes)
    for axes in (plot.schedule(schedule), plot.schedule(schedule, by="user"), plot.queue(schedule)):
        axes.figure.canvas.draw()
        assert boxes_of(axes) == {}
        assert axes.get_xlabel() == "seconds since the first submission"
    row = plot.compare({"nothing": schedule})
    assert [text.get_text() for text in row.texts] == ["\u2013"]


# Comparisons


def points_of(axes: Axes) -> list[float]:
    """Positions of the dots, from top to bottom."""
    dots = [line for line in axes.get_lines() if line.get_marker() == "o"]
    return [
        float(np.asarray(dot.get_xdata())[0])
        for dot in sorted(dots, key=lambda dot: float(np.asarray(dot.get_ydata())[0]))
    ]


def lines_of(axes: Axes) -> list[tuple[float, float]]:
    whiskers = [np.asarray(line.get_xdata(), dtype=float) for line in axes.get_lines() if line.get_marker() == "|"]
    return [(float(ends.min()), float(ends.max())) for ends in whiskers]


def names_on(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def waits(*waits: float) -> Schedule:
    """Return a schedule of jobs with these waits in seconds."""
    count, start = len(waits), np.array(waits, dtype=np.float64)
    jobs = Workload("w", np.arange(count), np.zeros(count), np.ones(count), np.ones(count, dtype=int), np.ones(count))
    return Schedule(jobs, count, np.zeros(count), start, start + 1)


def test_schedules_and_metrics_are_compared_by_their_mean_waits() -> None:
    axes = plot.compare({"a": waits(10, 30), "b": allocopt.measure(waits(50)), "c": [waits(4), waits(8), waits(9)]})
    assert points_of(axes) == pytest.approx([20, 50, 7])
    assert names_on(axes) == ["a", "b", "c"]
    interval = Interval.of(np.array([4.0, 8.0, 9.0]))
    assert lines_of(axes) == [pytest.approx((interval.low, interval.high))]
    assert axes.get_xlabel() == "mean wait (seconds); lines are 95 % intervals"
    assert [text.get_text() for text in axes.texts] == ["20", "50", "7"]
    hours = plot.compare({"a": waits(36_000)})
    assert points_of(hours) == [10.0]
    assert hours.get_xlabel() == "mean wait (hours)"


def test_results_are_compared_by_objective_and_bound() -> None:
    axes = plot.compare({
        "one": result_of((), 10.0, 8.0), "two": [result_of((), 6.0, 6.0), result_of((), 4.0, 1.0)],
        "no bound": [result_of((), 3.0, 1.0), result_of((), 3.0)], "none": result_of(None, None, 1.0),
    })  # fmt: skip
    assert points_of(axes) == [10.0, 5.0, 3.0]
    assert lines_of(axes) == [(8.0, 10.0), (3.5, 5.0)]
    assert axes.get_xlabel() == "mean objective; lines end at the bound"
    assert [text.get_text() for text in axes.texts] == ["10", "5", "3", "\u2013"]


def test_rows_of_bench_are_compared_on_the_instances_that_all_have_solved(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    header = "instance,kind,strategy,solver,status,objective,bound,seed"
    lines = [
        "x,topology,free,lns,FEASIBLE,10,9,0",
        "y,topology,free,lns,FEASIBLE,20,15,0",
        "z,topology,free,lns,FEASIBLE,1,1,0",
    ]
    lines += [
        "x,topology,scas,dp,OPTIMAL,12,12,0",
        "y,topology,scas,dp,OPTIMAL,22,22,0",
        "z,topology,scas,dp,UNKNOWN,,,0",
    ]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        axes = plot.compare(csv.DictReader(file))
    assert names_on(axes) == ["lns, free", "dp, scas"]
    assert points_of(axes) == [15.0, 17.0]
    assert lines_of(axes) == [(12.0, 15.0), (17.0, 17.0)]
    plain = [
        {"instance": "x", "solver": name, "objective": value, "strategy": np.nan}
        for name, value in (("a", 1), ("b", 2))
    ]
    assert names_on(plot.compare(plain)) == ["a", "b"]


@pytest.mark.parametrize(
    ("results", "fault"),
    [
        ({}, "there is nothing to compare"),
        ({"a": waits(1), "b": result_of((), 1.0)}, "waits are compared with objectives"),
        ({"a": [waits(1), result_of((), 1.0)]}, "either of waits or of objectives"),
        ({"a": 3}, "cannot compare int"),
        ([{"solver": "a", "objective": 1}], "have no column 'instance'"),
        ([{"instance": "x", "solver": "a", "objective": None}], "no instance is solved by all solvers"),
        ([], "have no column 'instance'"),
    ],
)
def test_what_cannot_be_compared_is_refused(results: Any, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        plot.compare(results)


# All pictures


@given(windows(most_idle=40, most_jobs=12))
def test_nothing_of_a_new_figure_is_cut_off(problem: TopologyProblem) -> None:
    axes = plot.allocation(problem, allocopt.solve(problem, solver="greedy"))
    figure = axes.figure
    figure.canvas.draw()
    drawn = figure.get_tightbbox()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()
    plt.close(figure)


def test_given_axes_are_used_and_nothing_else_changes() -> None:
    schedule, problem = waits(1, 2), allocopt.read_problems("@tiny")[0]
    figure, axes = plt.subplots(4)
    before, numbers = dict(matplotlib.rcParams), plt.get_fignums()
    result = allocopt.solve(problem, solver="greedy")
    made = [
        plot.allocation(problem, result, axes[0]), plot.schedule(schedule, axes[1]),
        plot.queue(schedule, axes[2]), plot.compare({"a": schedule}, axes[3]),
    ]  # fmt: skip
    assert made == axes.tolist()
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == numbers
    figure.canvas.draw()


def test_without_matplotlib_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, problem = waits(1), allocopt.read_problems("@tiny")[0]
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    expected = r"^pictures need the package 'matplotlib', which is not installed: pip install 'allocopt\[plot\]'$"
    with pytest.raises(MissingPackageError, match=expected):
        plot.allocation(problem)
    with pytest.raises(MissingPackageError, match=expected):
        plot.schedule(schedule)
    with pytest.raises(MissingPackageError, match=expected):
        plot.queue(schedule)
    with pytest.raises(MissingPackageError, match=expected):
        plot.compare({"a": schedule})
