"""Allocations on trees: every node is drawn once, in its place, in a colour that its neighbours do not have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.windows import trees

from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.report.html.figures.tree import _MOST_CELLS, IDLE, TAKEN, TreePicture, _Cells
from allocopt.report.palette import LIGHT, N_COLOURS


def overlap(boxes: np.ndarray) -> bool:
    """Whether two boxes have more than an edge in common."""
    left, upper, width, height = boxes.T
    right, lower = left + width, upper + height
    before = (right[:, None] <= left + 1e-6) | (lower[:, None] <= upper + 1e-6)
    return not bool((before | before.T | np.eye(len(boxes), dtype=bool)).all())


FAT_TREES = st.builds(FatTree, st.integers(1, 4), st.integers(1, 8), st.integers(1, 40))


def said(picture: TreePicture) -> list[str]:
    """Return what the cells say when a reader points at them."""
    (panel,) = picture.figure().draw(LIGHT)
    rows = [row for layer in panel.spec()["layer"] for row in layer["data"]["values"]]
    return [row["description"] for row in rows if row.get("description")]


@given(trees(60) | FAT_TREES, st.sampled_from((259.0, 605.0, 1_000.0)))
def test_every_node_is_a_cell_within_its_frames(topology: Topology, width: float) -> None:
    cells = _Cells.of(topology)
    assert sorted(cells.order.tolist()) == list(range(topology.size))
    placed = cells.placed(width)
    assert len(placed.cells) == topology.size
    leaves, *_ = [*topology.groups_of(np.arange(topology.size)), [0]]
    assert len(placed.inner) == len(np.unique(leaves))
    for boxes in (placed.cells, placed.inner, placed.outer):
        assert not overlap(boxes)
        assert boxes[:, 0].min() >= 0
        assert (boxes[:, 0] + boxes[:, 2]).max() <= width + 1e-6
        assert (boxes[:, 1] + boxes[:, 3]).max() <= placed.height + 1e-6


def test_a_large_machine_is_drawn_by_its_leaves() -> None:
    topology = FatTree(10, 20, 50)
    assert topology.size > _MOST_CELLS
    owner = np.full(topology.size, TAKEN)
    owner[:30], owner[30:60] = 0, IDLE
    titles = said(TreePicture(topology, owner, ["a"]))
    assert "leaf 0: taken" not in titles
    assert "leaf 0: idle 20, job a 30" in titles
    assert "leaf 1: taken before 40, idle 10" in titles
    assert titles.count("leaf 199: taken before 50") == 1


def test_a_cell_says_who_holds_it() -> None:
    picture = TreePicture(FatTree(1, 1, 3), np.array([0, IDLE, TAKEN]), ["<b>"], node_names=("x", "y", "z"))
    assert said(picture) == ["x: job <b>", "y: idle", "z: taken before"]


@given(st.integers(0, 1_000), st.integers(1, N_COLOURS))
def test_jobs_of_one_leaf_differ_in_colour_as_long_as_there_are_colours(seed: int, jobs: int) -> None:
    random = np.random.default_rng(seed)
    owner = random.integers(-1, jobs, 50)
    group = np.arange(50) // 7
    leaves = {f"s{number}": np.flatnonzero(group == number).tolist() for number in range(8)}
    keys = TreePicture(Tree.from_levels([leaves], (2, 4)), owner, [str(job) for job in range(jobs)]).keys
    for number in range(8):
        held = {job for job in owner[group == number].tolist() if job >= 0}
        assert len({keys[job] for job in held}) == len(held)


@pytest.mark.parametrize("topology", [FatTree(1, 1, 1), Tree.from_levels([{"only": [0, 1]}])], ids=["node", "flat"])
def test_the_smallest_machines_are_drawn(topology: Topology) -> None:
    picture = TreePicture(topology, np.zeros(topology.size, dtype=np.int64), ["1"])
    assert said(picture) == [f"node {node}: job 1" for node in range(topology.size)]
