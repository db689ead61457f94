"""CuSH: steps per second, workers side by side, and a page with the results of ``allocopt reproduce``.

Run ``allocopt reproduce`` for every artifact of the paper first, with ``--option trained=FOLDER`` for the weights of
several trainings; ``--rows`` is the folder with the result files. ``--measure-workers`` trains with 1, 2 and 4 workers,
which needs an otherwise idle machine, and prints the table of ``page.md``. Needs the extra train.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from allocopt.envs.cush.jobsets import MACHINES, Machine, Recipe
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from papers.artifact import read_curve
from papers.cush.configuration import CUSH
from papers.cush.experiments import (
    DIFFERENCE,
    ERROR,
    LONG_OVER_SHORT,
    NETWORK_JOBSETS,
    NETWORK_SIMULATIONS,
    SHORT_WAIT,
)
from papers.cush.figures import (
    HORIZON_EPOCHS,
    HORIZON_NODES,
    LARGEST_ERROR,
    MEAN_ERROR,
    ORDERED,
    OVER_SERVICE,
    RATIO,
    RATIO_OVER_SERVICE,
    RIGHT,
    SHORT_EPOCHS,
    WAYS,
    Curve,
)
from papers.cush.penalties import RATIO_TO_WAIT
from papers.pages import Row, Selection, page_parser, read_rows, selected_tables, write_lines, write_template

ROUNDS = 5
WORKERS = (1, 2, 4)
SPEED_EPOCHS, SPEED_RUNS, QUALITY_EPOCHS, SEED = 100, 2, 300, 0
STRETCH = 20
"""Epochs between two validations; speed is measured over such a stretch."""
SIMULATIONS = 240
"""Simulations of an epoch."""

_METHODS = "(?:CuSH|(?:sjf|fcfs), (?:depth|breadth)-first)"
_TRAINED = {
    "epochs": 0,
    "episodes": 0,
    "processor s": 0,
    "validation at first": 2,
    "NTAT": 2,
    "NTAT of sjf over CuSH's": 3,
    SHORT_WAIT: 1,
    LONG_OVER_SHORT: 1,
    RIGHT: 1,
}
SELECTIONS = {
    "ratios": Selection("cush-table1", f"(.*: {CUSH})", {RATIO: 3, RATIO_OVER_SERVICE: 3}, has_spread=True),
    "table1": Selection(
        "cush-table1", "(.*: (?:CuSH|.*-first|sjf, oracle))", {"NTAT": 2, OVER_SERVICE: 2, "wait": 1, "rewards": 0}
    ),
    "errors": Selection("cush-table1", "(.*) of the baselines", {LARGEST_ERROR: 2, MEAN_ERROR: 2, ORDERED: 0}),
    "figure5": Selection("cush-figure5", f"({_METHODS}: .*)", {"NTAT": 2, "wait": 1}),
    "figure6": Selection(
        "cush-figure6",
        f"((?:policies|measured): (?:{'|'.join(WAYS)}))",
        {"NTAT": 3, RATIO: 3, RIGHT: 3, "% of the oracle's gain in penalty": 3},
    ),
    "dynamic": Selection(
        "cush-figure6", "(types not known at first)", {f"{RIGHT} in job set {n}": 2 for n in (1, 3, 5)}
    ),
    "figure7": Selection("cush-figure7", f"({_METHODS}: .*)", {"penalty": 2}),
    "figure8": Selection(
        "cush-figure8", "(.* nodes: trained on .*)", {"NTAT of CuSH": 3, "NTAT of sjf over CuSH's": 3}
    ),
    "horizons": Selection("cush-horizons", "(.*)", {"NTAT": 2}),
    "penalties": Selection(
        "cush-penalties",
        "(.*)",
        {
            **{f"largest error of {column}": 2 for column in ("NTAT", "wait", "rewards")},
            "mean error": 2,
            "pairs as printed": 0,
            f"least {RATIO_TO_WAIT}": 2,
            f"most {RATIO_TO_WAIT}": 2,
        },
    ),
    "mask": Selection("cush-mask", "(.*)", {"NTAT, now": 3, "NTAT, horizon": 3, DIFFERENCE: 2, ERROR: 2}),
    "algorithm1": Selection("cush-algorithm1", "(.*)", _TRAINED),
    "networks": Selection("cush-networks", "(.*)", _TRAINED),
}


def _speeds() -> list[list[Cell]]:
    """Measure steps per second on one core with all observations at every step; return the fastest of some runs."""
    rows: list[list[Cell]] = []
    for name in MACHINES:
        machine = Machine.of(name)
        jobsets = Recipe().draw_each(machine, SIERRA_TABLE, range(64))
        both = [CushEpisodes(jobsets, machine, 16, CushOptions(observation=kind)) for kind in ("image", "slots")]
        fastest = [max(_steps_per_second(episodes) for _ in range(ROUNDS)) for episodes in both]
        rows.append([f"{name.capitalize()}, {machine.nodes} nodes", *fastest])
    return rows


def _steps_per_second(episodes: CushEpisodes, seconds: float = 1.0) -> float:
    """Return how many random legal choices are made per second, with all observations."""
    rng, count = np.random.default_rng(0), episodes.n_environments
    drawn = rng.integers(0, len(episodes.jobsets), count)
    episodes.follow(drawn)
    episodes.begin(drawn)
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        _, legal = episodes.observe()
        slots = (rng.random(legal.shape) * legal).argmax(axis=1)
        episodes.step(slots, rng.integers(0, 2, count))
        steps += count
    return steps / (time.perf_counter() - started)


def _train_together(count: int, epochs: int, folder: Path) -> tuple[Curve, float]:
    """Train with some workers; return the learning curve, and the processor time of all workers in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = [f"--option=epochs={epochs}", f"--option=every={STRETCH}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    command = [sys.executable, *launcher, "-m", "allocopt", "train", "cush", "--seed", str(SEED), "--out", str(folder)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return read_curve(folder / "curve.csv"), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _episodes_per_second(curve: Curve) -> float:
    # Use the fastest stretch of epochs, because other programs run on the machine, too.
    times = np.array([row["seconds"] for row in curve])
    return SIMULATIONS * STRETCH / float((times[STRETCH:] - times[:-STRETCH]).min())


def _measure_workers() -> str:
    """Train with 1, 2 and 4 workers: short runs in turn to measure the speed, and one long run for the result."""
    runs: dict[int, list[tuple[Curve, float]]] = {count: [] for count in WORKERS}
    with tempfile.TemporaryDirectory() as folder:
        for run, epochs in enumerate([SPEED_EPOCHS] * SPEED_RUNS + [QUALITY_EPOCHS]):
            for count in WORKERS:
                runs[count].append(_train_together(count, epochs, Path(folder) / f"{count}-{run}"))
    rows: list[list[Cell]] = []
    alone = alone_s = 1.0
    for count, (*short, (curve, used_s)) in runs.items():
        # Starting takes equally long in short and long runs, so the difference excludes it.
        epoch_s = (used_s - min(seconds for _, seconds in short)) / (QUALITY_EPOCHS - SPEED_EPOCHS)
        fastest = max(_episodes_per_second(of_run) for of_run, _ in runs[count])
        if count == 1:
            alone, alone_s = fastest, epoch_s
        scores = [row["score"] for row in curve]
        late = sorted(set(scores[-QUALITY_EPOCHS // 4 :]))
        rows.append([count, min(scores), late[0], late[-1], fastest, fastest / alone, count * alone_s / epoch_s])
    header = ("workers", "best NTAT", "last quarter, least", "most", "episodes/s", "over 1 worker", "by processor time")
    return aligned_table(header, rows, (0, 3, 3, 3, 0, 2, 2))


def _draw_figure_four(rows: Sequence[Row], curve: Path) -> None:
    """Draw the turnaround of validations over the epochs, and that of the baselines."""
    points = read_curve(curve)
    epochs, scores = (np.array([point[name] for point in points]) for name in ("update", "score"))
    lines = {"CuSH": (epochs, scores)}
    for row in rows:
        if row["column"] == "NTAT" and row["row"].startswith(("sjf", "fcfs")):
            lines[row["row"]] = (epochs[[0, -1]], np.array([row["ours"], row["ours"]]))
    title = "Normalized turnaround time while CuSH learns, Sierra"
    write_lines("cush_figure4", title, {"NTAT": lines}, "epoch")


def main() -> None:
    """Measure and write the page."""
    parser = page_parser(__doc__, rows=True)
    parser.add_argument(
        "--trained", type=Path, default=Path("trained"), help="draw Figure 4 from this folder's training for Sierra"
    )
    parser.add_argument("--measure-workers", action="store_true", help="measure 1, 2 and 4 workers, and stop")
    options = parser.parse_args()
    if options.measure_workers:
        print(_measure_workers())
        return
    curve = options.trained / "cush-sierra-seed-0" / "curve.csv"
    if curve.exists():
        _draw_figure_four(read_rows(options.rows, "cush-figure4"), curve)
    places = {
        **selected_tables(options.rows, SELECTIONS),
        "short_epochs": SHORT_EPOCHS,
        "horizon_nodes": HORIZON_NODES,
        "horizon_epochs": HORIZON_EPOCHS,
        "network_jobsets": NETWORK_JOBSETS,
        "network_simulations": NETWORK_SIMULATIONS,
        "speed": aligned_table(("machine", "image", "slots"), _speeds(), (None, 0, 0)),
    }
    write_template(__file__, "cush", places)


if __name__ == "__main__":
    main()
