"""The page of the NSA paper: what ``allocopt reproduce`` wrote, and the forward passes of its networks timed.

Run ``allocopt reproduce nsa-table3``, ``nsa-table4`` and ``nsa-figure5`` first; ``--rows`` is the folder with their
files. ``--trained`` is the folder with the trainings of the weights that come along, for their learning curves.
``--forward`` prints the times of the forward pass alone and writes nothing.
"""

import argparse
import timeit
from functools import partial
from pathlib import Path

import numpy as np
from numba import njit

from allocopt.arrays import Float32Array
from allocopt.files.writing import write_text
from allocopt.report.table import Cell, aligned_table
from learned.nsa.networks import NETWORKS, PRINTED_PARAMETERS, Buffers, PackedNetwork, buffers_for, forward
from learned.nsa.solver import load_network, weights_path
from learned.rl.curve import line_plot, smoothed
from learned.weights import read_weights
from papers.artifact import read_curve
from papers.nsa.tables import AVERAGE, LEADER, OPTIMUM
from papers.pages import RESULTS, Row, by_row, measured_at, read_rows, rows_table, write_template

REPEATS, PASSES = 200, 50


@njit()
def _passes(network: PackedNetwork, buffers: Buffers, state: Float32Array, n: int) -> None:
    for _ in range(n):
        forward(network, buffers, state)


def _forward_microseconds(name: str) -> float:
    # The mean of 50 passes at a time, the least of 200 repetitions.
    architecture, network = load_network(weights_path(name))
    buffers = buffers_for(architecture)
    state = np.random.default_rng(0).random(architecture.input[0] * architecture.input[1], dtype=np.float32)
    _passes(network, buffers, state, 1)
    seconds = timeit.repeat(partial(_passes, network, buffers, state, PASSES), repeat=REPEATS, number=1)
    return 1e6 * min(seconds) / PASSES


def _networks() -> str:
    header = ("network", "parameters", "printed", "forward pass, us", "updates", "seed", "trained by")
    rows: list[list[Cell]] = []
    for name, architecture in NETWORKS.items():
        _, card = read_weights(weights_path(name))
        count, printed = architecture.n_parameters, PRINTED_PARAMETERS[name]
        rows.append([name, count, printed, _forward_microseconds(name), card.updates, card.seed, f"`{card.command}`"])
    return aligned_table(header, rows, (None, 0, 0, 1, 0, 0, None))


def _epochs(rows: list[Row], columns: dict[str, str]) -> str:
    """Format one line per epoch: published and ours of some columns, by what they are called here."""
    header = ["epoch", *(f"{title}{kind}" for title in columns.values() for kind in (", published", ", ours"))]
    cells: list[list[Cell]] = []
    for epoch, found in by_row(rows).items():
        if "SCIP" not in epoch:
            cells.append([epoch, *(found[column][kind] for column in columns for kind in ("published", "ours"))])
    return aligned_table(header, cells, (None, *(2 if "%" in name else 0 for name in header[1:])))


def _curves(trained: Path) -> str:
    """Plot the learning curves, and say where they end and how long the trainings took."""
    lines = {}
    rows: list[list[Cell]] = []
    for name in NETWORKS:
        curve = read_curve(trained / f"nsa-{name}-seed-0" / "curve.csv")
        samples, returns, seconds = (
            np.array([row[column] for row in curve]) for column in ("samples", "mean_return", "seconds")
        )
        lines[name] = (samples, smoothed(returns, 0.05))
        first, last = float(returns[:5].mean()), float(returns[-len(returns) // 20 :].mean())
        rows.append([name, len(curve), float(samples[-1]), first, last, float(seconds[-1]) / 60])
    write_text(RESULTS / "nsa_figure4.svg", line_plot("Figure 4", "samples", "return", lines))
    header = ("network", "updates", "samples", "return at first", "at the end", "minutes, one core, shared")
    return aligned_table(header, rows, (None, 0, 0, 3, 3, 1))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    parser.add_argument("--trained", type=Path, default=Path("trained"))
    parser.add_argument("--forward", action="store_true")
    options = parser.parse_args()
    if options.forward:
        print(_networks())
        return
    three, four, five = (read_rows(options.rows, f"nsa-{name}") for name in ("table3", "table4", "figure5"))
    ours = {f"{LEADER} cost": LEADER}
    by_epoch = {"SA-1000 cost": "SA-1000", **ours, "Impr. % on SA-1000": "Impr. %"}
    gaps = {f"{OPTIMUM} cost": "optimum", **ours, f"Impr. % of {LEADER} on {OPTIMUM}": "Impr. %"}
    places = {
        "measured": measured_at([*three, *four, *five]),
        "networks": _networks(),
        "curves": _curves(options.trained),
        "table3": _epochs(three, by_epoch),
        "means3": rows_table([row for row in three if row["row"] == AVERAGE]),
        "table4": _epochs(four, gaps),
        "means4": rows_table([row for row in four if row["row"] == AVERAGE]),
        "figure5": rows_table([row for row in five if "Impr." in row["column"] or row["row"] == "500 steps"]),
    }
    write_template(__file__, "nsa", places)


if __name__ == "__main__":
    main()
