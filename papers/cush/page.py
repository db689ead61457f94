"""CuSH: steps per second, workers side by side, and a page with what ``allocopt reproduce`` wrote.

Run ``allocopt reproduce cush-table1`` and ``cush-figure4`` to ``cush-figure8`` first, with ``--option trained=FOLDER``
for the weights of several trainings; ``--rows`` is the folder with their files. ``--measure-workers`` trains with 1, 2
and 4 workers, wants a quiet machine, and writes what it measured to the same folder. Needs the extra train.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.envs.cush.jobsets import draw_jobsets
from allocopt.envs.cush.task import Episodes, Options
from allocopt.files.writing import write_text
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from learned.rl.curve import line_plot
from papers.artifact import read_curve
from papers.cush.configuration import MACHINES
from papers.cush.figures import HORIZON_EPOCHS, HORIZON_NODES, NODES, RATIO, RIGHT, WAYS, Curve
from papers.pages import RESULTS, Row, by_row, measured_at, ours, read_rows, rows_table, write_template

ROUNDS = 5
WORKERS = (1, 2, 4)
SPEED_EPOCHS, SPEED_RUNS, QUALITY_EPOCHS, SEED = 100, 2, 300, 0
WORKER_FILE = "cush-workers.json"
GAIN = "% of the oracle's gain in penalty"
STRETCH = 20
"""Epochs between two validations, over which speed is measured."""
SIMULATIONS = 240
"""Simulations of an epoch."""


def _speeds() -> list[list[Cell]]:
    """Measure steps per second of one core, with everything seen at each of them; the fastest of some runs."""
    rows: list[list[Cell]] = []
    for name, machine_of in MACHINES.items():
        machine = machine_of()
        jobsets = draw_jobsets(machine, SIERRA_TABLE, range(64))
        for observation in ("image", "slots"):
            episodes = Episodes(jobsets, machine, 16, Options(observation=observation))
            rates = [_steps_per_second(episodes) for _ in range(ROUNDS)]
            rows.append([name.capitalize(), machine.nodes, observation, max(rates)])
    return rows


def _steps_per_second(episodes: Episodes, seconds: float = 1.0) -> float:
    """Let random legal choices be made in some episodes, with all observations."""
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
    """Train with some workers, and return the learning curve, and the seconds of processor time of all of them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = [f"--option=epochs={epochs}", f"--option=every={STRETCH}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    command = [sys.executable, *launcher, "-m", "allocopt", "train", "cush", "--seed", str(SEED), "--out", str(folder)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return read_curve(folder / "curve.csv"), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _episodes_per_second(curve: Curve) -> float:
    # In the fastest stretch of epochs: other programs run on the machine too.
    times = np.array([row["seconds"] for row in curve])
    return SIMULATIONS * STRETCH / float((times[STRETCH:] - times[:-STRETCH]).min())


def _measure_workers(path: Path) -> None:
    """Train with 1, 2 and 4 workers: some short runs in turn for their speed, one long one for what comes out."""
    runs: dict[int, list[tuple[Curve, float]]] = {count: [] for count in WORKERS}
    with tempfile.TemporaryDirectory() as folder:
        for run, epochs in enumerate([SPEED_EPOCHS] * SPEED_RUNS + [QUALITY_EPOCHS]):
            for count in WORKERS:
                runs[count].append(_train_together(count, epochs, Path(folder) / f"{count}-{run}"))
    found: dict[str, Any] = {}
    for count, (*short, (curve, used_s)) in runs.items():
        # What starting takes is the same in both.
        epoch_s = (used_s - min(seconds for _, seconds in short)) / (QUALITY_EPOCHS - SPEED_EPOCHS)
        speeds, scores = [_episodes_per_second(of_run) for of_run, _ in runs[count]], [row["score"] for row in curve]
        found[str(count)] = {"speeds": speeds, "scores": scores, "epoch_s": epoch_s}
    write_text(path, json.dumps(found) + "\n")
    print({count: (max(one["speeds"]), one["epoch_s"], min(one["scores"])) for count, one in found.items()})


def _workers(found: dict[str, Any]) -> str:
    alone, alone_s = max(found["1"]["speeds"]), found["1"]["epoch_s"]
    rows: list[list[Cell]] = []
    for count, one in found.items():
        late = sorted(set(one["scores"][-QUALITY_EPOCHS // 4 :]))
        fastest = max(one["speeds"])
        ideal = int(count) * alone_s / one["epoch_s"]
        rows.append([int(count), min(one["scores"]), late[0], late[-1], fastest, fastest / alone, ideal])
    header = ("workers", "best NTAT", "last quarter, least", "most", "episodes/s", "over 1 worker", "by processor time")
    return aligned_table(header, rows, (0, 3, 3, 3, 0, 2, 2))


def _wide(rows: Sequence[Row], columns: Sequence[str], first: str) -> str:
    """Return a table with a column for each measure, and one for what is published of it where something is."""
    header: list[str] = [first]
    kinds: list[tuple[str, str]] = []
    for column in columns:
        is_printed = any(row["published"] is not None for row in rows if row["column"] == column)
        header += [column, "published"] if is_printed else [column]
        kinds += [(column, kind) for kind in (("ours", "published") if is_printed else ("ours",))]
    cells = [[name, *(found.get(c, {}).get(kind) for c, kind in kinds)] for name, found in by_row(rows).items()]
    return aligned_table(header, cells, (None, *(2 for _ in kinds)))


def _figure_four(rows: list[Row], curve: Path) -> str:
    """Return where the curves end, and a plot of the validation's turnaround over epochs where there is a training."""
    table = rows_table([row for row in rows if "epoch" not in row["column"] or row["published"] is not None], 3)
    if not curve.exists():
        return table
    points = read_curve(curve)
    epochs, scores = (np.array([point[name] for point in points]) for name in ("update", "score"))
    lines = {"CuSH": (epochs, scores)}
    for row in rows:
        if row["column"] == "NTAT" and row["row"].startswith(("sjf", "fcfs")):
            lines[row["row"]] = (epochs[[0, -1]], np.array([row["ours"], row["ours"]]))
    title = "Normalized turnaround time while CuSH learns, Sierra"
    write_text(RESULTS / "cush_figure4.svg", line_plot(title, "epoch", "NTAT", lines))
    return f"{table}\n\n![Figure 4](cush_figure4.svg)"


def _bars(rows: dict[str, list[Row]], workers: dict[str, Any], steps: list[list[Cell]]) -> str:
    """Return what was asked for beside what came out."""
    one, six, eight = (by_row(rows[name]) for name in ("table1", "figure6", "figure8"))
    learned = {name: one.get(f"{name}: CuSH", {}) for name in MACHINES}
    horizons = [float(found["NTAT"]["ours"]) for name, found in eight.items() if name.startswith("horizon")]
    lines: list[list[Cell]] = []
    for name, found in learned.items():
        lines.append([f"CuSH's NTAT over the best baseline's, {name}", "<= 0.85", ours(found.get(RATIO))])
    for name, found in learned.items():
        lines.append([f"right policies, {name}, %", "> 99", ours(found.get(RIGHT))])
    gain = six.get("measured: learned", {}).get(GAIN)
    lines.append(["measured model: % of the oracle's gain in penalty", ">= 95", ours(gain)])
    lines += [[f"{RATIO}, {way}", "-", ours(six.get(f"policies: {way}", {}).get(RATIO))] for way in WAYS]
    spread = max(horizons) / min(horizons) if horizons else None
    lines.append(["largest over smallest NTAT of the horizons", "<= 1.1", spread])
    for nodes in NODES:
        found = eight.get(f"{nodes} nodes: trained on it", {})
        ratios = [row["ours"] for column, row in found.items() if "over CuSH's" in column]
        lines.append([f"best baseline's NTAT over CuSH's, {nodes} nodes", "-", min(ratios, default=None)])
    slowest = min(float(str(rate)) for _, _, observation, rate in steps if observation == "image")
    lines.append(["steps/s with images of 128 nodes, one core, the slower machine", ">= 10,000", slowest])
    if workers:
        speed = max(workers["2"]["speeds"]) / max(workers["1"]["speeds"])
        used = 2 * workers["1"]["epoch_s"] / workers["2"]["epoch_s"]
        lines.append(["episodes/s of two workers over one, beside other programs", ">= 1.6", speed])
        lines.append(["the same by processor time", "-", used])
    return aligned_table(("claim", "bar", "measured"), lines, (None, None, 3))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"), help="folder with the reproductions' files")
    parser.add_argument(
        "--trained", type=Path, default=Path("trained"), help="folder with the training for Sierra that Figure 4 shows"
    )
    parser.add_argument("--measure-workers", action="store_true", help="measure workers, and stop")
    options = parser.parse_args()
    path = options.rows / WORKER_FILE
    if options.measure_workers:
        _measure_workers(path)
        return
    rows = {name: read_rows(options.rows, f"cush-{name}") for name in ("table1", *(f"figure{i}" for i in range(4, 9)))}
    steps, workers = _speeds(), json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    columns = ("NTAT", "wait", "rewards", "penalty", "right policies %")
    ratios = [
        f"- {row['row']}: NTAT {row['ours']:.3f} of the best baseline's (published {row['published']:.3f}; bar 0.85), "
        f"spread {row['spread'] or 0:.3f} over training seeds"
        for row in rows["table1"]
        if row["column"].startswith("NTAT over")
    ]
    places = {
        "measured": measured_at([row for found in rows.values() for row in found]),
        "bars": _bars(rows, workers, steps),
        "table1": _wide(rows["table1"], columns, "machine: method"),
        "ratios": "\n".join(ratios),
        "figure4": _figure_four(rows["figure4"], options.trained / "cush-sierra-seed-0" / "curve.csv"),
        "figure5": _wide(rows["figure5"], ("NTAT", "wait"), "method: length"),
        "figure6": rows_table(rows["figure6"], 3),
        "figure7": _wide(rows["figure7"], ("penalty",), "method: size"),
        "horizon_nodes": HORIZON_NODES,
        "horizon_epochs": HORIZON_EPOCHS,
        "figure8": rows_table(rows["figure8"], 3),
        "quality_epochs": QUALITY_EPOCHS,
        "stretch": STRETCH,
        "runs": SPEED_RUNS + 1,
        "workers": _workers(workers) if workers else None,
        "speed": aligned_table(("machine", "nodes", "observation", "steps/s"), steps, (None, 0, None, 0)),
    }
    write_template(__file__, "cush", places)


if __name__ == "__main__":
    main()
