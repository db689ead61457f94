"""DRAS: times of decisions, and a page with tables and plots of the results of ``allocopt reproduce``.

Run ``allocopt reproduce dras-figure5`` to ``dras-figure11``, ``dras-figure6-rewards``, ``dras-table4``,
``dras-figure7-cori``, ``dras-reasons``, ``dras-rewards`` and ``dras-networks`` first, with ``--option trained=FOLDER``
for the weights of several trainings. ``--rows`` is the folder with the result files; sections without files are left
out. ``--decisions`` prints only the times of decisions and updates, and writes nothing. ``--jitter DATA`` simulates the
held-out days with varied run times, from the traces in the folder DATA, and writes the results to the folder ``--rows``
instead of writing the page. Needs the extras train and plot.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from allocopt.arrays import FloatArray
from allocopt.files.writing import write_text
from allocopt.report.plot import WIDE, Axis, Colours, Key, Panel
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import Interval, varied_run_times
from papers.artifact import Asked
from papers.dras.configuration import AGENTS, HELD_OUT, PAPER_METHODS, REFERENCE, SITES, jobsets_of, schedulers
from papers.dras.cori_figure import DAYS, DRAWS
from papers.dras.curves import AT_END, ORDERS, REWARDS
from papers.dras.figures import KIVIAT, SURGE_METHODS, metrics_of
from papers.dras.network import decision_times, update_times
from papers.dras.networks import JITTER, JOBSETS
from papers.pages import (
    ByRow,
    Row,
    Selection,
    by_row,
    page_parser,
    read_rows,
    selected_tables,
    write_figure,
    write_lines,
    write_template,
)

_SHARES = (
    *(
        f"{mode}, {what} %"
        for mode, what in (("backfilled", "jobs"), ("ready", "core hours"), ("reserved", "core hours"))
    ),
    "reserved, core hours of large jobs %",
)
_RATIOS = {f"{wait} wait / {REFERENCE}": digits for wait, digits in (("mean", 3), ("max", 2))}
_WAITS = {"mean wait h": 2, "max wait h": 1}
_BY_LOAD = {
    "backfilled, jobs %": 1,
    "reserved, core hours %": 1,
    **{f"{mode}, mean wait h": 2 for mode in ("backfilled", "ready", "reserved")},
    **{f"{jobs} jobs, max wait h": 1 for jobs in ("large", "other")},
}
_BY_REWARD = {
    "mean wait h": 2,
    "backfilled, jobs %": 1,
    "reserved, core hours %": 1,
    **{f"{jobs} jobs, max wait h": 1 for jobs in ("large", "other")},
    "reserved, mean wait h": 2,
}
_ON_CORI = {"mean wait h": 3, "max wait h": 1, "mean bounded slowdown": 1, "utilization": 3, "area": 3}
_SLOWDOWN = "mean bounded slowdown / FCFS/B"
SELECTIONS = {
    "figure7": Selection("dras-figure7", "(.*: (?:Optimization|DRAS-.*))", {**_RATIOS, "area": 3}),
    "figure6": Selection(
        "dras-figure6-rewards",
        f"{AT_END}: (.*)",
        dict.fromkeys(REWARDS, 1),
    ),
    "figure8": Selection("dras-figure8", f"{HELD_OUT}: (.*), all sizes", {"wait h, max": 1}),
    "figure9": Selection("dras-figure9", f"{HELD_OUT}: ((?:{REFERENCE}|DRAS-.*), .*)", {"wait h, mean": 2}),
    "table4": Selection("dras-table4", f"{HELD_OUT}: ({REFERENCE}|DRAS-.*)", dict.fromkeys(_SHARES, 1)),
    "figure10": Selection("dras-figure10", "all seeds: (.*), surge", _WAITS),
    "figure11": Selection("dras-figure11", f"(.*: (?:DRAS-.*|RLScheduler, .*|{REFERENCE}))", _WAITS),
    "figure10_gates": Selection(
        "dras-figure10",
        "all seeds: (.*, dynamic, (?:gated|ungated|ungated, 8 weeks))",
        {"times trained": 1, "times changed": 1},
    ),
    "loads": Selection("dras-reasons", "load (.*)", _BY_LOAD),
    "rewards": Selection("dras-rewards", "(.*)", _BY_REWARD),
    "network_seeds": Selection(
        "dras-networks",
        "(.*)",
        {
            "mean wait / FCFS/B, by seed": 3,
            "max wait / FCFS/B, by seed": 2,
            "processor minutes of a training": 1,
        },
    ),
    "cori": Selection("dras-figure7-cori", "(.*)", _ON_CORI),
}
COMPARED = {
    "cori_ratios": ("dras-figure7-cori", "(.*)", ("mean wait / FCFS/B", "max wait / FCFS/B", _SLOWDOWN)),
    "figure10_pairs": ("dras-figure10", "pairs: (.*)", ("mean wait", "max wait")),
    "networks": ("dras-networks", "(.*)", ("mean wait / FCFS/B", "max wait / FCFS/B")),
    "weeks": ("dras-reasons", f"weeks ((?!.*{REFERENCE}).*)", ("mean wait / FCFS/B", "max wait / FCFS/B")),
}
"""Artifact, rows and columns of the tables of paired ratios by place; see `_paired_table`."""
Parts = dict[str, ByRow]
"""Rows by the text before the colon (machine and jobsets, or a seed) and the text after it."""


def _parts(rows: list[Row]) -> Parts:
    found: Parts = {}
    for row, columns in by_row(rows).items():
        part, name = row.split(": ")
        found.setdefault(part, {})[name] = columns
    return found


def _points(columns: dict[str, Row], measure: str) -> tuple[list[float], list[float]]:
    """Return updates and values of a curve."""
    marker = f"{measure} at update "
    known = {float(column.removeprefix(marker)): row for column, row in columns.items() if column.startswith(marker)}
    return list(known), [row["ours"] for row in known.values()]


def _plot_curves(curves: ByRow, constants: dict[str, float], name: str, is_share: bool) -> None:
    """Draw total rewards and ratios of mean waits over updates, or over the share of the training."""
    parts: dict[str, dict[str, tuple[FloatArray, list[float]]]] = {}
    titles = {"total_reward": "total reward, validation jobsets", "wait_ratio": f"mean wait / {REFERENCE}"}
    for measure, title in titles.items():
        for label, columns in curves.items():
            updates, values = _points(columns, measure)
            xs = np.array(updates) / (updates[-1] if is_share else 1)
            parts.setdefault(title, {})[label] = (xs, values)
    for label, constant in constants.items():
        parts[titles["total_reward"]][label] = (np.array([0.0, 1.0]), [constant] * 2)
    write_lines(name, "Learning curves", parts, "share of the training" if is_share else "update")


def _figure_five(parts: Parts) -> None:
    """Draw the learning curves of the orders of the phases."""
    found = next(iter(parts.values()))
    _plot_curves({order: found[order] for order in ORDERS if order in found}, {}, "dras_figure5", is_share=False)


def _figure_six(parts: Parts) -> None:
    """Draw the agents' curves, and the rewards of the other methods."""
    ends = parts.pop(AT_END, {})
    rewards = {method: of["reward as trained"]["ours"] for method, of in ends.items()}
    constants = {method: reward for method, reward in rewards.items() if method not in AGENTS}
    _plot_curves(next(iter(parts.values())), constants, "dras_figure6", is_share=True)


def _figure_seven(parts: Parts) -> None:
    """Draw the measures of the Kiviat graphs, a panel for every part."""
    names = [metric.removesuffix(" h") for metric in KIVIAT]
    lines = {
        part: {
            method: (range(len(names)), [found[method][f"{name}, normalized"]["ours"] for name in names])
            for method in PAPER_METHODS
            if method in found
        }
        for part, found in parts.items()
    }
    write_lines("dras_figure7", "Measures, 1 for the best method", lines, "", ticks=list(enumerate(names)))


def _boxes(number: int, parts: Parts) -> None:
    """Draw the waits of the held-out week as boxes, a colour per kind of job; a white point is the mean."""
    shown: dict[str, dict[str, dict[str, float]]] = {}
    for row, columns in parts[HELD_OUT].items():
        method, kind = row.rsplit(", ", 1)
        shown.setdefault(method, {})[kind] = {
            column.removeprefix("wait h, "): of["ours"] for column, of in columns.items()
        }
    kinds = list(dict.fromkeys(kind for of in shown.values() for kind in of))
    longest = max(box["max"] for of in shown.values() for box in of.values())
    width = 0.8 / len(kinds)

    def draw(colours: Colours) -> list[Panel]:
        hours = [(each, f"{each:g}") for each in (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0) if each <= longest]
        methods = Axis((-0.5, len(shown) - 0.5), list(enumerate(shown)), has_grid=False)
        panel = Panel(colours, methods, Axis((0.0, 1.2 * longest), hours, scale="symlog"), 300, "wait, h", WIDE)
        white, ink = colours["surface"], colours["ink"]
        for place, of in enumerate(shown.values()):
            for kind, box in of.items():
                series = kinds.index(kind)
                left = place - 0.4 + series * width
                middle = left + 0.4 * width
                panel.boxes(np.array([[middle - 0.004, box["min"], 0.008, box["max"] - box["min"]]]), ["muted"])
                # The median is the edge between two halves.
                halves = [("q1", "median"), ("median", "q3")]
                corners = [[left, box[low], 0.8 * width, box[high] - box[low]] for low, high in halves]
                panel.boxes(np.array(corners), [Key(series).role] * 2, edge="ink")
                panel.points(series, np.array([middle]), np.array([box["mean"]]), fill=white, stroke=ink)
        return [panel]

    write_figure(f"dras_figure{number}", "Waits of the held-out days", draw, kinds)


def _figure_ten(parts: Parts) -> None:
    """Draw mean and longest wait by week of the measured methods."""
    found = next(iter(parts.values()))
    lines: dict[str, dict[str, tuple[range, list[float]]]] = {}
    for column, title in (("mean wait h", "mean wait, h"), ("max wait h", "longest wait, h")):
        for method in SURGE_METHODS:
            waits = [of[column]["ours"] for name, of in found.items() if name.startswith(f"{method}, week")]
            if waits:
                lines.setdefault(title, {})[method] = (range(1, len(waits) + 1), waits)
    write_lines("dras_figure10", "Waits through a surge", lines, "week", logarithmic="y")


PLOTS: dict[str, Callable[[Parts], None]] = {
    "figure5": _figure_five,
    "figure6": _figure_six,
    "figure7": _figure_seven,
    "figure8": partial(_boxes, 8),
    "figure9": partial(_boxes, 9),
    "figure10": _figure_ten,
}
BESIDE = {"figure6": "dras-figure6-rewards"}
"""Further artifact whose rows a picture needs, by the picture."""

JITTER_FILE = "dras-jitter.json"
VARIANTS = 20
JITTERED = ("WFP3/B", "UNICEP/B", "DRAS-PPO")
"""Methods that are compared with `REFERENCE` on variants of the held-out days; agents use the shipped weights."""


def _measure_jitter(data: Path, path: Path) -> None:
    """Write mean and longest waits of the methods over those of the reference, on every variant."""
    asked = Asked(data, False, (0,))
    found: dict[str, dict[str, list[list[float]]]] = {}
    for site in SITES.values():
        (jobs,) = jobsets_of(site, HELD_OUT, asked)
        ratios = found[site.name] = {method: [] for method in JITTERED}
        for seed in range(VARIANTS):
            variant = varied_run_times(jobs, np.random.default_rng(seed), JITTER)
            waits = {}
            for method in (REFERENCE, *JITTERED):
                (scheduler,) = schedulers(method, site, asked)
                metrics = metrics_of(simulate(variant, site.processors, scheduler))
                waits[method] = np.array([metrics["mean wait h"], metrics["max wait h"]])
            for method in JITTERED:
                ratios[method].append((waits[method] / waits[REFERENCE]).tolist())
    write_text(path, json.dumps(found) + "\n")
    print(_jittered(path))


def _jittered(path: Path) -> str:
    cells: list[list[Cell]] = []
    for site, by_method in json.loads(path.read_text(encoding="utf-8")).items():
        for method, ratios in by_method.items():
            mean, spread = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1)
            cells.append([f"{site}: {method}", f"{mean[0]:.3f} ± {spread[0]:.3f}", f"{mean[1]:.2f} ± {spread[1]:.2f}"])
    return aligned_table(("", "mean wait / FCFS/B", "max wait / FCFS/B"), cells, (None, 0, 0))


def _paired_table(rows: list[Row], pattern: str, columns: Sequence[str]) -> str | None:
    """Return a table of means with their 95 % intervals; None if nothing was measured."""
    lines: list[list[Cell]] = []
    for name, found in by_row(rows).items():
        match = re.fullmatch(pattern, name)
        if match and f"{columns[0]}, from" in found:
            cells = ([found[f"{column}{end}"]["ours"] for end in ("", ", from", ", to")] for column in columns)
            lines.append([match[1], *(f"{mean:.3f} ({low:.3f} .. {high:.3f})" for mean, low, high in cells)])
    return aligned_table(("", *columns), lines, (None, *(0 for _ in columns))) if lines else None


def _orders(rows: list[Row]) -> str | None:
    """Return the best scores by order of the phases, and their ratios to the paper's order on the same seeds."""
    scores: dict[str, dict[str, float]] = {}
    for name, columns in by_row(rows).items():
        seed, order = name.split(": ")
        scores.setdefault(order, {})[seed] = columns["best score"]["ours"]
    if len(scores.get(ORDERS[0], {})) < 2:
        return None
    usual = np.array(list(scores[ORDERS[0]].values()))
    cells: list[list[Cell]] = []
    for order, by_seed in scores.items():
        found = np.array([by_seed[seed] for seed in scores[ORDERS[0]]])
        ratio = Interval.of(found / usual)
        shown = f"{ratio.mean:.3f} ({ratio.low:.3f} .. {ratio.high:.3f})"
        cells.append([order, f"{found.mean():.3f} ± {found.std(ddof=1):.3f}", shown])
    return aligned_table(("", "best score", "ratio to the paper's order"), cells, (None, 0, 0))


def _surge_seeds(rows: list[Row]) -> int:
    return len({row["row"].split(": ")[0] for row in rows if row["row"].startswith("seed ")})


def _times() -> str:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    return aligned_table(["what", "ms", "at most"], [*decision_times(rng), *update_times(rng)], (None, 3, 1))


def main() -> None:
    """Measure and write the page."""
    parser = page_parser(__doc__, rows=True)
    parser.add_argument("--decisions", action="store_true")
    parser.add_argument("--jitter", type=Path, metavar="DATA", help="measure with varied run times, and stop")
    options = parser.parse_args()
    path = options.rows / JITTER_FILE
    if options.jitter:
        _measure_jitter(options.jitter, path)
        return
    if options.decisions:
        print(_times())
        return
    for name, draw in PLOTS.items():
        if rows := read_rows(options.rows, f"dras-{name}"):
            draw(_parts([*rows, *read_rows(options.rows, BESIDE.get(name, ""))]))
    places = {
        **selected_tables(options.rows, SELECTIONS),
        **{
            place: _paired_table(read_rows(options.rows, artifact), pattern, columns)
            for place, (artifact, pattern, columns) in COMPARED.items()
        },
        "orders": _orders(read_rows(options.rows, "dras-figure5")),
        "draws": DRAWS,
        "days": DAYS,
        "surge_seeds": _surge_seeds(read_rows(options.rows, "dras-figure10")),
        "network_jobsets": JOBSETS,
        "variants": VARIANTS,
        "last_variant": VARIANTS - 1,
        "jitter": JITTER,
        "jittered": _jittered(path) if path.exists() else None,
    }
    write_template(__file__, "dras", places)


if __name__ == "__main__":
    main()
