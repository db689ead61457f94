"""The page of the NSA paper: what ``allocopt reproduce`` wrote, and the forward passes of its networks timed.

Run ``allocopt reproduce nsa-table3``, ``nsa-table4`` and ``nsa-figure5`` first; ``--rows`` is the folder with their
files. ``--trained`` is the folder with the trainings of the weights that come along, for their learning curves.
``--forward`` prints the times of the forward pass alone and writes nothing.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
from numba import njit

from allocopt.arrays import Float32Array
from allocopt.files.writing import write_text
from allocopt.report.table import Cell, aligned_table
from learned.nsa.networks import NETWORKS, PRINTED_PARAMETERS, Buffers, PackedNetwork, buffers_for, forward
from learned.nsa.solver import load_network, weights_path
from learned.rl.curve import line_plot, smoothed
from learned.weights import read_weights
from papers.nsa.configuration import LEADER
from papers.nsa.tables import AVERAGE, OPTIMUM
from papers.pages import RESULTS, Row, by_place, claims_section, measured_at, read_rows, rows_table, write_page

REPEATS, PASSES = 200, 50

INTENT = (
    "The NSA paper's comparisons on its own workload file, by `allocopt reproduce`: ten epochs of 100 windows, each "
    "epoch from an idle cluster of 1,000 nodes, advanced by NSA-500 with CNN-3. Costs are hop costs per job, times "
    "milliseconds per window on one core, means over the epochs; spread is the standard deviation over the epochs. "
    "The weights are those that come along. The convolutional networks are the paper's layers as printed, not its "
    "numbers of parameters."
)


def _passes(network: PackedNetwork, buffers: Buffers, state: Float32Array, n: int) -> None:
    for _ in range(n):
        forward(network, buffers, state)


many_passes = cast(Callable[[PackedNetwork, Buffers, Float32Array, int], None], njit(_passes))
"""Passes one state through a network n times."""


def forward_microseconds(name: str) -> float:
    """Least time of a forward pass, the mean of 50 at a time, over 200 repetitions."""
    architecture, network = load_network(weights_path(name))
    buffers = buffers_for(architecture)
    state = np.random.default_rng(0).random(architecture.input[0] * architecture.input[1], dtype=np.float32)
    many_passes(network, buffers, state, 1)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        many_passes(network, buffers, state, PASSES)
        best = min(best, time.perf_counter() - started)
    return 1e6 * best / PASSES


def forward_table() -> str:
    """Describe the networks, their weights, and the times of their forward passes."""
    header = ("network", "parameters", "printed", "forward pass, us", "updates", "seed", "trained by")
    rows: list[list[Cell]] = []
    for name, architecture in NETWORKS.items():
        _, card = read_weights(weights_path(name))
        count, printed = architecture.n_parameters, PRINTED_PARAMETERS[name]
        rows.append([name, count, printed, forward_microseconds(name), card.updates, card.seed, f"`{card.command}`"])
    return aligned_table(header, rows, (None, 0, 0, 1, 0, 0, None))


def epochs_table(rows: list[Row], columns: dict[str, str]) -> str:
    """Format one line per epoch: published and ours of some columns, by what they are called here."""
    epochs = dict.fromkeys(row["row"] for row in rows if row["row"] != AVERAGE and "SCIP" not in row["row"])
    value = by_place(rows)
    header = ["epoch", *(f"{title}{kind}" for title in columns.values() for kind in (", published", ", ours"))]
    cells: list[list[Cell]] = []
    for epoch in [*epochs, AVERAGE]:
        found = [value[epoch, column] for column in columns]
        cells.append([epoch, *(row[kind] for row in found for kind in ("published", "ours"))])
    return aligned_table(header, cells, (None, *(2 if "%" in name else 0 for name in header[1:])))


def curves_section(trained: Path) -> str:
    """Plot the learning curves, and say where they end and how long the trainings took."""
    lines = {}
    rows: list[list[Cell]] = []
    for name in NETWORKS:
        with (trained / f"nsa-{name}-seed-0" / "curve.csv").open(encoding="utf-8") as file:
            curve = list(csv.DictReader(file))
        samples, returns, seconds = (
            np.array([float(row[column]) for row in curve]) for column in ("samples", "mean_return", "seconds")
        )
        lines[name] = (samples, smoothed(returns, 0.05))
        first, last = float(returns[:5].mean()), float(returns[-len(returns) // 20 :].mean())
        rows.append([name, len(curve), float(samples[-1]), first, last, float(seconds[-1]) / 60])
    write_text(RESULTS / "nsa_figure4.svg", line_plot("Figure 4", "samples", "return", lines))
    header = ("network", "updates", "samples", "return at first", "at the end", "minutes, one core, shared")
    table = aligned_table(header, rows, (None, 0, 0, 3, 3, 1))
    return f"## Figure 4\n\n{table}\n\n![Learning curves](nsa_figure4.svg)"


def sections(folder: Path, trained: Path) -> list[str]:
    """Return the sections of the page."""
    three, four, five = (read_rows(folder, f"nsa-{name}") for name in ("table3", "table4", "figure5"))
    ours = {f"{LEADER} cost": LEADER}
    by_epoch = {"SA-1000 cost": "SA-1000", **ours, "Impr. % on SA-1000": "Impr. %"}
    gaps = {f"{OPTIMUM} cost": "optimum", **ours, f"Impr. % of {LEADER} on {OPTIMUM}": "Impr. %"}
    return [
        measured_at([*three, *four, *five]),
        claims_section("nsa"),
        f"## The networks\n\n{forward_table()}",
        curves_section(trained),
        f"## Table III\n\n{epochs_table(three, by_epoch)}",
        rows_table([row for row in three if row["row"] == AVERAGE]),
        f"## Table IV\n\n{epochs_table(four, gaps)}",
        rows_table([row for row in four if row["row"] == AVERAGE]),
        f"## Figure 5\n\n{rows_table([row for row in five if 'Impr.' in row['column'] or row['row'] == '500 steps'])}",
    ]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    parser.add_argument("--trained", type=Path, default=Path("trained"))
    parser.add_argument("--forward", action="store_true")
    options = parser.parse_args()
    if options.forward:
        print(forward_table())
    else:
        found = sections(options.rows, options.trained)
        write_page("nsa", "Neural simulated annealing beside the paper", INTENT, found)


if __name__ == "__main__":
    main()
