"""CuSH: steps per second, workers side by side, and a page with what ``allocopt reproduce`` wrote.

Run ``allocopt reproduce cush-table1`` and ``cush-figure4`` to ``cush-figure8`` first, with ``--option trained=FOLDER``
for the weights of several trainings; ``--rows`` is the folder with their files. ``--measure-workers`` trains with 1, 2
and 4 workers, wants a quiet machine, and writes what it measured to the same folder. Needs the extra train.
"""

import argparse
import csv
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

from allocopt.envs.cush.jobsets import draw_jobsets, sierra, summit
from allocopt.envs.cush.task import Episodes, Options
from allocopt.files.writing import write_text
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.locality import SIERRA_TABLE
from learned.rl.curve import line_plot
from papers.cush.figures import HORIZON_EPOCHS, HORIZON_NODES, NODES
from papers.cush.selector import RATIO, RIGHT, WAYS
from papers.pages import RESULTS, Row, by_place, claims_section, measured_at, read_rows, rows_table, write_page

ROUNDS = 5
WORKERS = (1, 2, 4)
SPEED_EPOCHS, SPEED_RUNS, QUALITY_EPOCHS, SEED = 100, 2, 300, 0
WORKER_FILE = "cush-workers.json"
GAIN = "% of the oracle's gain in penalty"
STRETCH = 20
"""Epochs between two validations, over which speed is measured."""
SIMULATIONS = 240
"""Simulations of an epoch."""

INTENT = (
    "CuSH's job selector is here a small network of 1,729 weights, not the paper's of 294,966 on Sierra, but for the "
    "horizons of section 4.2.2. The CuSH paper's comparisons by `allocopt reproduce`, on job sets that neither the "
    "locality model nor a training has seen (seeds from 1,000,000 on); validation is on other ones (from "
    "900,000 on). The paper's job sets and penalties are not public, so published numbers stand beside ours for their "
    "order and ratios only. NTAT is the mean normalized turnaround time, times are in timesteps. Spread is the "
    "standard deviation over training seeds; n is the number of job sets, jobs or epochs behind a value."
)


EIGHT = (
    "Agents of each size are trained on it for 200 epochs; the one of 128 nodes for 1000. Horizons: the published "
    f"network on {HORIZON_NODES} nodes, {HORIZON_EPOCHS} epochs of 5 job sets and 8 simulations, which is far from the "
    "paper's 5000 epochs of 10 and 24. With T = 2 all jobs longer than one timestep look alike, so that the order by "
    "length, which counts most for NTAT, is lost."
)


def step_rows() -> list[list[Cell]]:
    """Measure steps per second of one core, with everything seen at each of them; the fastest of some runs."""
    rows: list[list[Cell]] = []
    for name, machine in (("Sierra", sierra()), ("Summit", summit())):
        jobsets = draw_jobsets(machine, SIERRA_TABLE, range(64))
        for observation in ("image", "slots"):
            episodes = Episodes(jobsets, machine, 16, Options(observation=observation))
            rates = [steps_per_second(episodes) for _ in range(ROUNDS)]
            rows.append([name, machine.nodes, observation, max(rates)])
    return rows


def steps_per_second(episodes: Episodes, seconds: float = 1.0) -> float:
    """Let random legal choices be made in some episodes, with all observations; return steps per second."""
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


def train_together(count: int, epochs: int, folder: Path) -> tuple[list[Row], float]:
    """Train with some workers, and return the learning curve, and the seconds of processor time of all of them."""
    before = processor_s()
    options = [f"--option=epochs={epochs}", f"--option=every={STRETCH}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    command = [sys.executable, *launcher, "-m", "allocopt", "train", "cush", "--seed", str(SEED), "--out", str(folder)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file)), processor_s() - before


def processor_s() -> float:
    """Return the processor time of all processes that have ended and were started here, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def episodes_per_second(curve: Sequence[Row]) -> float:
    """Return simulations per second in the fastest stretch of epochs: other programs run on the machine too."""
    times = np.array([float(row["seconds"]) for row in curve])
    return SIMULATIONS * STRETCH / float((times[STRETCH:] - times[:-STRETCH]).min())


def measure_workers(path: Path) -> None:
    """Train with 1, 2 and 4 workers: some short runs in turn for their speed, one long one for what comes out."""
    speeds: dict[int, list[float]] = {count: [] for count in WORKERS}
    short_s: dict[int, list[float]] = {count: [] for count in WORKERS}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(SPEED_RUNS):
            for count in WORKERS:
                curve, used_s = train_together(count, SPEED_EPOCHS, Path(folder) / f"{count}-{run}")
                speeds[count].append(episodes_per_second(curve))
                short_s[count].append(used_s)
        for count in WORKERS:
            curve, used_s = train_together(count, QUALITY_EPOCHS, Path(folder) / f"{count}")
            speeds[count].append(episodes_per_second(curve))
            # What starting takes is the same in both.
            epoch_s = (used_s - min(short_s[count])) / (QUALITY_EPOCHS - SPEED_EPOCHS)
            scores = [float(row["score"]) for row in curve]
            found[str(count)] = {"speeds": speeds[count], "scores": scores, "epoch_s": epoch_s}
    write_text(path, json.dumps(found) + "\n")
    print({count: (max(one["speeds"]), one["epoch_s"], min(one["scores"])) for count, one in found.items()})


def worker_section(path: Path) -> str:
    """Table of what was measured with several workers."""
    found = json.loads(path.read_text(encoding="utf-8"))
    alone, alone_s = max(found["1"]["speeds"]), found["1"]["epoch_s"]
    rows: list[list[Cell]] = []
    for count, one in found.items():
        late = sorted(set(one["scores"][-QUALITY_EPOCHS // 4 :]))
        fastest = max(one["speeds"])
        ideal = int(count) * alone_s / one["epoch_s"]
        rows.append([int(count), min(one["scores"]), late[0], late[-1], fastest, fastest / alone, ideal])
    header = ("workers", "best NTAT", "last quarter, least", "most", "episodes/s", "over 1 worker", "by processor time")
    text = (
        f"`torchrun --standalone --nproc-per-node P -m allocopt train cush`, gloo, {QUALITY_EPOCHS} epochs on Sierra "
        f"with the same seed; validation NTAT, and the fastest {STRETCH} epochs of {SPEED_RUNS + 1} runs. By processor "
        "time: episodes per second of each worker's own processor time, times the workers, over the same of one alone; "
        "other programs disturb it less. On two cores, more than two workers share these."
    )
    return f"{text}\n\n{aligned_table(header, rows, (0, 3, 3, 3, 0, 2, 2))}"


def wide_table(rows: Sequence[Row], columns: Sequence[str], first: str, decimals: int = 2) -> str:
    """Return a table with a column for each measure, and one for what is published of it where something is."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["row"], {})[row["column"]] = row
    printed = [c for c in columns if any(cells.get(c, {}).get("published") is not None for cells in found.values())]
    header: list[str] = [first]
    places: list[int | None] = [None]
    for column in columns:
        header += [column, "published"] if column in printed else [column]
        places += [decimals, 2] if column in printed else [decimals]
    cells: list[list[Cell]] = []
    for name, measures in found.items():
        line: list[Cell] = [name]
        for column in columns:
            cell = measures.get(column, {})
            line += [cell.get("ours"), cell.get("published")] if column in printed else [cell.get("ours")]
        cells.append(line)
    return aligned_table(header, cells, places)


def table_one(rows: list[Row]) -> str:
    """Table 1 and CuSH's ratio to the best baseline."""
    table = wide_table(rows, ("NTAT", "wait", "rewards", "penalty", "right policies %"), "machine: method")
    ratios = [row for row in rows if row["column"].startswith("NTAT over")]
    lines = [
        f"- {row['row']}: NTAT {row['ours']:.3f} of the best baseline's (published {row['published']:.3f}; bar 0.85), "
        f"spread {row['spread'] or 0:.3f} over training seeds"
        for row in ratios
    ]
    return "## Table 1\n\n" + table + "\n\n" + "\n".join(lines)


def figure_four(rows: list[Row], curve: Path) -> str:
    """Where the curves end, and a plot of the validation's turnaround over epochs."""
    last = [row for row in rows if "epoch" not in row["column"] or row["published"] is not None]
    text = "## Figure 4\n\nOn the job sets that validate.\n\n" + rows_table(last, 3)
    if not curve.exists():
        return text
    with curve.open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    epochs = np.array([float(point["update"]) for point in points])
    lines = {"CuSH": (epochs, np.array([float(point["score"]) for point in points]))}
    for row in rows:
        if row["column"] == "NTAT" and row["row"].startswith(("sjf", "fcfs")):
            lines[row["row"]] = (epochs[[0, -1]], np.array([row["ours"], row["ours"]]))
    title = "Normalized turnaround time while CuSH learns, Sierra"
    write_text(RESULTS / "cush_figure4.svg", line_plot(title, "epoch", "NTAT", lines))
    return text + "\n\n![Figure 4](cush_figure4.svg)"


def claims(rows: dict[str, list[Row]], workers: Path, steps: list[list[Cell]]) -> str:
    """Table of what was asked for beside what came out."""
    one, six, eight = (by_place(rows[name]) for name in ("table1", "figure6", "figure8"))
    horizons = [float(row["ours"]) for (name, _), row in eight.items() if name.startswith("horizon")]

    def ours(found: dict[tuple[str, str], Row], row: str, column: str) -> Cell:
        return found[row, column]["ours"] if (row, column) in found else None

    lines: list[list[Cell]] = []
    for name in ("sierra", "summit"):
        lines.append([f"CuSH's NTAT over the best baseline's, {name}", "<= 0.85", ours(one, f"{name}: CuSH", RATIO)])
    for name in ("sierra", "summit"):
        lines.append([f"right policies, {name}, %", "> 99", ours(one, f"{name}: CuSH", RIGHT)])
    lines.append(["measured model: % of the oracle's gain in penalty", ">= 95", ours(six, "measured: learned", GAIN)])
    lines += [[f"{RATIO}, {way}", "-", ours(six, f"policies: {way}", RATIO)] for way in WAYS]
    spread = max(horizons) / min(horizons) if horizons else None
    lines.append(["largest over smallest NTAT of the horizons", "<= 1.1", spread])
    for nodes in NODES:
        best = best_ratio(rows["figure8"], f"{nodes} nodes: trained on it")
        lines.append([f"best baseline's NTAT over CuSH's, {nodes} nodes", "-", best])
    lines.append(["steps/s with images of 128 nodes, one core, the slower machine", ">= 10,000", slowest(steps)])
    if workers.exists():
        found = json.loads(workers.read_text(encoding="utf-8"))
        speed = max(found["2"]["speeds"]) / max(found["1"]["speeds"])
        used = 2 * found["1"]["epoch_s"] / found["2"]["epoch_s"]
        lines.append(["episodes/s of two workers over one, beside other programs", ">= 1.6", speed])
        lines.append(["the same by processor time", "-", used])
    return aligned_table(("claim", "bar", "measured"), lines, (None, None, 3))


def best_ratio(rows: Sequence[Row], row: str) -> float | None:
    """Return the smallest ratio of a baseline in a row of Figure 8."""
    return min((one["ours"] for one in rows if one["row"] == row and "over CuSH's" in one["column"]), default=None)


def slowest(steps: list[list[Cell]]) -> float:
    """Return the smallest rate with images."""
    return min(float(str(rate)) for _, _, observation, rate in steps if observation == "image")


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"), help="folder with the reproductions' files")
    parser.add_argument(
        "--trained", type=Path, default=Path("trained"), help="folder with the training for Sierra that Figure 4 shows"
    )
    parser.add_argument("--measure-workers", action="store_true", help="measure workers, and stop")
    options = parser.parse_args()
    if options.measure_workers:
        measure_workers(options.rows / WORKER_FILE)
        return
    rows = {name: read_rows(options.rows, f"cush-{name}") for name in ("table1", *(f"figure{i}" for i in range(4, 9)))}
    steps, workers = step_rows(), options.rows / WORKER_FILE
    everything = [row for found in rows.values() for row in found]
    sections = [measured_at(everything), claims_section("cush")]
    sections.append(claims(rows, workers, steps))
    curve = options.trained / "cush-sierra-seed-0" / "curve.csv"
    sections += [table_one(rows["table1"]), figure_four(rows["figure4"], curve)]
    five = wide_table(rows["figure5"], ("NTAT", "wait"), "method: length")
    sections.append(f"## Figure 5: turnaround and wait by length\n\n{five}")
    sections.append("## Figure 6: the policy selector\n\n" + rows_table(rows["figure6"], 3))
    sections.append("## Figure 7: penalty by size\n\n" + wide_table(rows["figure7"], ("penalty",), "method: size"))
    sections.append(f"## Figure 8 and section 4.2.2\n\n{EIGHT}\n\n{rows_table(rows['figure8'], 3)}")
    if workers.exists():
        sections.append("## K-step averaging\n\n" + worker_section(workers))
    speed = aligned_table(("machine", "nodes", "observation", "steps/s"), steps, (None, 0, None, 0))
    sections.append(f"## Speed\n\nOne core, 16 episodes side by side, everything observed at every step.\n\n{speed}")
    write_page("cush", "CuSH: job selector and policy selector", INTENT, sections)


if __name__ == "__main__":
    main()
