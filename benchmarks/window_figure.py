"""The picture of the README: one window, allocated in the order of the nodes and at the least cost.

Every solve ends with a proof or needs no search, so that the file is reproduced byte for byte.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np

import allocopt
from allocopt.cluster.options import FatTreeOptions
from allocopt.files.writing import write_text
from allocopt.problems.topology.generate import drawn_window
from allocopt.report.palette import DARK, LIGHT
from allocopt.report.plot import FONTS
from allocopt.topology import TopologyProblem
from papers.pages import page_parser

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "window.svg"
TREE = FatTreeOptions(pods=4, leaves_per_pod=4, nodes_per_leaf=8)
CLUSTER = TREE.tree()
PANELS = (("sequential", "in the order of the nodes"), ("exact", "proved optimal"))
CELL, LEAF_GAP, POD_GAP, MARGIN, LINE = 10, 5, 12, 16, 21
"""Sizes in the drawing: a node, the gaps between leaves and between pods, the margin, and the height of a line."""
ROLES = ("surface", "ink", "raised", "idle", "taken", *(f"c{number}" for number in range(1, 9)))


def window() -> TopologyProblem:
    """Return a window of eight jobs on 80 idle nodes in short runs."""
    return drawn_window("window", np.random.default_rng(5), 80, 8, 3, 16, 3.0, 0.9, TREE)


def style() -> str:
    """Return a CSS class per colour, for light and dark mode."""
    light, dark = (
        "".join(f".{role}{{fill:{colours[role]}}}" for role in ROLES) + f".pod{{stroke:{colours['line']}}}"
        for colours in (LIGHT, DARK)
    )
    return f"<style>text{{font:13px {FONTS}}}{light}@media(prefers-color-scheme:dark){{{dark}}}</style>"


def position(node: int) -> tuple[int, int]:
    """Return the position of a node: pods are side by side, each leaf is a line with its nodes."""
    leaf, place = divmod(node, CLUSTER.nodes_per_leaf)
    pod, row = divmod(leaf, CLUSTER.leaves_per_pod)
    width = CLUSTER.nodes_per_leaf * CELL + 2 * LEAF_GAP + POD_GAP
    return MARGIN + LEAF_GAP + pod * width + place * CELL, LEAF_GAP + row * (CELL + LEAF_GAP)


def panel(problem: TopologyProblem, name: str, words: str, top: int) -> Iterator[str]:
    """Draw a solver's allocation, with its cost above it."""
    result = allocopt.solve(problem, solver=name, time_limit=None)
    assert result.solution is not None
    owner = {int(node): job for job, nodes in enumerate(result.solution.nodes) for node in nodes}
    colours = {int(node): "idle" for node in problem.idle_nodes} | {node: f"c{job + 1}" for node, job in owner.items()}
    yield f'<text class="ink" x="{MARGIN}" y="{top}">{escape(name)}, {words}: hop cost {result.objective:,.0f}</text>'
    first_pod = CLUSTER.nodes_per_leaf * CLUSTER.leaves_per_pod
    height = CLUSTER.leaves_per_pod * (CELL + LEAF_GAP) + LEAF_GAP
    for pod in range(CLUSTER.pods):
        x, _ = position(pod * first_pod)
        width = CLUSTER.nodes_per_leaf * CELL + 2 * LEAF_GAP
        yield f'<rect class="raised pod" x="{x - LEAF_GAP}" y="{top + 8}" width="{width}" height="{height}" rx="3"/>'
    for node in range(CLUSTER.size):
        x, y = position(node)
        role = colours.get(node, "taken")
        yield f'<rect class="{role}" x="{x}" y="{top + 8 + y}" width="{CELL - 1}" height="{CELL}"/>'


def drawing(problem: TopologyProblem) -> str:
    step = CLUSTER.leaves_per_pod * (CELL + LEAF_GAP) + 2 * LINE
    parts = [part for place, what in enumerate(PANELS) for part in panel(problem, *what, 26 + place * step)]
    width = position(CLUSTER.size - 1)[0] + CELL + LEAF_GAP + MARGIN
    height = 26 + len(PANELS) * step - LINE
    frame = f'<rect class="surface" width="{width}" height="{height}" rx="6"/>'
    view = f'viewBox="0 0 {width} {height}" width="{2 * width}" role="img"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view}>\n{style()}\n{frame}\n{body}\n</svg>\n'


def main() -> None:
    page_parser(__doc__).parse_args()
    write_text(PICTURE, drawing(window()))


if __name__ == "__main__":
    main()
