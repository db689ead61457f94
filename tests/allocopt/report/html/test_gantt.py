"""Jobs over time: no rectangle overlaps another, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
from support.timelines import timeline

from allocopt.cluster.topology import Tree
from allocopt.report.html.figures.gantt import _lanes, gantt_figure


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


@pytest.mark.slow
@pytest.mark.parametrize("has_nodes", [False, True])
def test_many_jobs_are_drawn_as_shares_in_a_small_figure(has_nodes: bool) -> None:
    line = timeline(4_000)
    if has_nodes:
        line = replace(line, nodes=tuple(np.arange(size) for size in line.processors))
    figure = gantt_figure(line)
    ((_, svg),) = figure.svgs()
    assert len(svg) < 1_000_000
    assert "Too much to draw job by job" in figure.caption


def test_nodes_on_an_axis_have_their_names() -> None:
    flat = replace(timeline(9, 4), nodes=tuple(np.arange(4) for _ in range(9)), node_names=("a1", "a2", "b1", "b2"))
    ((panel, _),) = gantt_figure(flat).svgs()
    assert [label for _, label in panel.y.ticks] == ["a1", "a2", "b1", "b2"]
    switches = replace(flat, topology=Tree.from_levels([{"rack-a": [0, 1], "rack-b": [2, 3]}], (2, 4)))
    ((panel, _),) = gantt_figure(switches).svgs()
    assert [label for _, label in panel.y.ticks] == ["rack-a", "rack-b"]


def test_jobs_that_share_a_node_have_lanes_of_their_own() -> None:
    start, end = np.array([0.0, 1.0, 2.0, 5.0]), np.array([4.0, 3.0, 9.0, 6.0])
    lane, lanes = _lanes(np.zeros(4, dtype=np.int64), start, end, 1)
    assert lane.tolist() == [0, 1, 2, 0]
    assert lanes.tolist() == [3]
