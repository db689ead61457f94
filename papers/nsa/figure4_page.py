"""Figure 4 of the NSA paper: results and sizes of the six networks, and the time of a forward pass.

``--trained`` is the folder with the trainings of the shipped weights, for their learning curves. ``--forward`` only
prints the times of the forward pass and writes nothing.
"""

import timeit
from functools import partial
from pathlib import Path

import numpy as np
from numba import njit

from allocopt.arrays import Float32Array
from allocopt.learned.nsa.networks import NETWORKS, PRINTED_PARAMETERS, Buffers, PackedNetwork, forward
from allocopt.learned.nsa.solver import Nsa
from allocopt.report.plot import smoothed
from allocopt.report.words import Cell, aligned_table
from papers.artifact import read_curve
from papers.pages import page_parser, write_lines, write_template

REPEATS, PASSES = 200, 50


@njit()
def _passes(network: PackedNetwork, buffers: Buffers, state: Float32Array, n: int) -> None:
    for _ in range(n):
        forward(network, buffers, state)


def _forward_microseconds(name: str) -> float:
    # Minimum over 200 repetitions of the mean time of 50 passes.
    architecture, network = Nsa(name).loaded()
    buffers = architecture.buffers()
    state = np.random.default_rng(0).random(architecture.input[0] * architecture.input[1], dtype=np.float32)
    _passes(network, buffers, state, 1)
    seconds = timeit.repeat(partial(_passes, network, buffers, state, PASSES), repeat=REPEATS, number=1)
    return 1e6 * min(seconds) / PASSES


def _networks(trained: Path | None) -> str:
    """Return a table of sizes, times and final returns; draw the learning curves of the trainings in the folder."""
    lines = {}
    rows: list[list[Cell]] = []
    for name, architecture in NETWORKS.items():
        end: float | None = None
        if trained is not None:
            curve = read_curve(trained / f"nsa-{name}-seed-0" / "curve.csv")
            samples, returns = (np.array([row[column] for row in curve]) for column in ("samples", "mean_return"))
            lines[name] = (samples, smoothed(returns, 0.05))
            end = float(returns[-len(returns) // 20 :].mean())
        rows.append([name, architecture.n_parameters, PRINTED_PARAMETERS[name], _forward_microseconds(name), end])
    if lines:
        write_lines("nsa_figure4", "Figure 4", {"return": lines}, "samples")
    header = ("network", "parameters", "printed", "forward pass, us", "return at the end")
    return aligned_table(header, rows, (None, 0, 0, 1, 3))


def main() -> None:
    """Measure and write the page."""
    parser = page_parser(__doc__)
    parser.add_argument("--trained", type=Path, default=Path("trained"))
    parser.add_argument("--forward", action="store_true")
    options = parser.parse_args()
    if options.forward:
        print(_networks(None))
        return
    write_template(__file__, "nsa_figure4", {"networks": _networks(options.trained)})


if __name__ == "__main__":
    main()
