"""Schedules over time: sums as over every second, no rectangle overlaps another, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timelines import timeline

from allocopt.cluster.topology import Tree
from allocopt.report.html.figures.gantt import gantt_figure
from allocopt.report.html.sections.schedules import _BINS, _usage_figure
from allocopt.report.html.timeline import Timeline, lanes


def test_jobs_without_nodes_are_drawn_on_processors_of_their_own() -> None:
    line = timeline(60)
    rectangles = line.rectangles()
    drawn_sizes = np.zeros(60, dtype=int)
    for number, (job, low, high) in enumerate(rectangles):
        drawn_sizes[job] += high - low
        for other, other_low, other_high in rectangles[:number]:
            apart_in_time = line.end[job] <= line.start[other] or line.end[other] <= line.start[job]
            assert apart_in_time or high <= other_low or other_high <= low
    assert drawn_sizes.tolist() == line.processors.tolist()
    # A job is named when it is pointed at.
    ((_, svg),) = gantt_figure(timeline(3)).svgs()
    assert svg.count('aria-label="job j0: ') == 1


def test_nodes_of_a_switch_stand_together() -> None:
    tree = Tree.from_levels([{"a": [0, 2, 4], "b": [1, 3, 5]}], (2, 4))
    line = replace(timeline(1, 6), topology=tree, nodes=(np.array([0, 2, 4, 1]),), names=["x"])
    assert line.places().tolist() == [0, 3, 1, 4, 2, 5]
    assert line.rectangles() == [(0, 0, 4)]


@pytest.mark.parametrize("size", [32, 3])
def test_what_a_record_used_of_a_larger_machine_stays_within_its_axis(size: int) -> None:
    lines = {"as recorded": replace(timeline(40), size=size), "simulated": timeline(40, seed=1)}
    (used, _), _ = _usage_figure(lines).svgs()
    edges = Timeline.shared_bins(list(lines.values()), _BINS)
    most = max(float(100 * line.held(edges).max() / line.size) for line in lines.values())
    assert (most > 102) == (size == 3)
    assert most <= used.y.domain[1] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("has_nodes", [False, True])
def test_many_jobs_are_drawn_as_shares_in_a_small_figure(has_nodes: bool) -> None:
    line = timeline(4_000)
    if has_nodes:
        line = replace(line, nodes=tuple(np.arange(size) for size in line.processors))
    figure = gantt_figure(line)
    ((_, svg),) = figure.svgs()
    assert len(svg) < 1_000_000
    assert "Too many jobs to draw each" in figure.caption


def test_nodes_on_an_axis_have_their_names() -> None:
    flat = replace(timeline(9, 4), nodes=tuple(np.arange(4) for _ in range(9)), node_names=("a1", "a2", "b1", "b2"))
    ((panel, _),) = gantt_figure(flat).svgs()
    assert [label for _, label in panel.y.ticks] == ["a1", "a2", "b1", "b2"]
    switches = replace(flat, topology=Tree.from_levels([{"rack-a": [0, 1], "rack-b": [2, 3]}], (2, 4)))
    ((panel, _),) = gantt_figure(switches).svgs()
    assert [label for _, label in panel.y.ticks] == ["rack-a", "rack-b"]


def test_jobs_that_share_a_node_have_lanes_of_their_own() -> None:
    start, end = np.array([0.0, 1.0, 2.0, 5.0]), np.array([4.0, 3.0, 9.0, 6.0])
    lane, counts = lanes(np.zeros(4, dtype=np.int64), start, end, 1)
    assert lane.tolist() == [0, 1, 2, 0]
    assert counts.tolist() == [3]


def every_second(line: Timeline, first: np.ndarray, last: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum of the weights of the spans that cover each second."""
    seconds = np.arange(int(line.submit.min()), int(line.end.max()))
    covers = (first[:, None] <= seconds) & (seconds < last[:, None])
    total: np.ndarray = (covers * weights[:, None]).sum(axis=0)
    return total


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 9))
def test_means_between_edges_are_sums_over_seconds(seed: int, jobs: int, width: int) -> None:
    random = np.random.default_rng(seed)
    submit = random.integers(0, 40, jobs).astype(float)
    start = submit + random.integers(0, 20, jobs)
    end = start + random.integers(1, 30, jobs)
    size = random.integers(1, 5, jobs)
    line = Timeline([""] * jobs, submit, start, end, size, 64)
    held, waiting = every_second(line, start, end, size), every_second(line, submit, start, np.ones(jobs))
    bins = len(held) // width
    edges = float(submit.min()) + width * np.arange(bins + 1.0)
    for ours, seconds in ((line.held(edges), held), (line.waiting(edges), waiting)):
        expected = seconds[: bins * width].reshape(bins, width).mean(axis=1)
        np.testing.assert_allclose(ours, expected, atol=1e-9)
    assert line.utilization == pytest.approx(held.sum() / (64 * len(held)))
    busiest = int(line.busiest() - submit.min())
    assert held[busiest] == held.max()
    assert size[line.running(line.busiest())].sum() == held.max()


def test_schedules_are_one_when_all_jobs_run_at_the_same_times() -> None:
    lines = {"a": timeline(20), "b": timeline(20, seed=1), "c": timeline(20)}
    assert [names for names, _ in Timeline.distinct(lines.items())] == [["a", "c"], ["b"]]
