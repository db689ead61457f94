"""DRAS: times of decisions, and a page with plots of what ``allocopt reproduce`` wrote.

Run ``allocopt reproduce dras-figure5`` to ``dras-figure11`` and ``dras-table4`` first, with ``--option trained=FOLDER``
for the weights of several trainings; ``--rows`` is the folder with their files, and what is not there is left out.
``--decisions`` prints the times of decisions and updates alone and writes nothing. ``--jitter DATA`` schedules the
held-out days of the folder with the traces with run times jittered, and writes what it measured to the same folder
instead of the page. Needs the extras train and plot.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from allocopt.files.writing import write_text
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.simulate import simulate
from learned.dras.jobsets import varied_jobset
from papers.artifact import Asked
from papers.dras.configuration import AGENTS, HELD_OUT, PAPER_METHODS, REFERENCE, SITES, jobsets_of, schedulers
from papers.dras.curves import ORDERS
from papers.dras.figures import KIVIAT, SURGE_METHODS, metrics_of
from papers.dras.network import decision_times, update_times
from papers.pages import ByRow, Row, Selection, by_row, panels, read_rows, save, selected_tables, write_template

_SHARES = (
    *(
        f"{mode}, {what} %"
        for mode, what in (("backfilled", "jobs"), ("ready", "core hours"), ("reserved", "core hours"))
    ),
    "reserved, core hours of large jobs %",
)
_RATIOS = {f"{wait} wait / {REFERENCE}": digits for wait, digits in (("mean", 3), ("max", 2))}
_WAITS = {"mean wait h": 2, "max wait h": 1}
SELECTIONS = {
    "figure7": Selection("dras-figure7", "(.*: (?:Optimization|DRAS-.*))", {**_RATIOS, "area": 3}),
    "figure6": Selection("dras-figure6", "at the end: (.*)", {"reward as trained": 1, "reward by Eq. 1": 1}),
    "figure8": Selection("dras-figure8", f"{HELD_OUT}: (.*), all sizes", {"wait h, max": 1}),
    "figure9": Selection("dras-figure9", f"{HELD_OUT}: ((?:{REFERENCE}|DRAS-.*), .*)", {"wait h, mean": 2}),
    "table4": Selection("dras-table4", f"{HELD_OUT}: ({REFERENCE}|DRAS-.*)", dict.fromkeys(_SHARES, 1)),
    "figure10": Selection("dras-figure10", "all seeds: (.*, surge)", _WAITS),
    "figure11": Selection("dras-figure11", "(.*: DRAS-PPO, .*)", _WAITS),
}
Parts = dict[str, ByRow]
"""Rows by what stands before the colon, machine and jobsets or a seed, and what stands behind it."""


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
    """Draw total rewards and ratios of mean waits over updates, or over their share."""
    figure, both = panels("dras", 1, 2, (10, 4))
    for panel, measure in zip(both, ("total_reward", "wait_ratio"), strict=True):
        for label, columns in curves.items():
            xs, ys = _points(columns, measure)
            panel.plot(np.array(xs) / (xs[-1] if is_share else 1), ys, label=label)
    for (label, constant), dashes in zip(constants.items(), ("-", "--", "-.", ":"), strict=False):
        both[0].axhline(constant, color="grey", linestyle=dashes, label=label)
    for panel, title in zip(both, ("total reward, validation jobsets", f"mean wait / {REFERENCE}"), strict=True):
        panel.set(title=title, xlabel="share of the training" if is_share else "update")
    save(figure, name, legend_columns=4)


def _figure_five(parts: Parts) -> None:
    """Draw the learning curves of the orders of the phases."""
    found = next(iter(parts.values()))
    _plot_curves({order: found[order] for order in ORDERS if order in found}, {}, "dras_figure5", is_share=False)


def _figure_six(parts: Parts) -> None:
    """Draw the agents' curves, and what the other methods collect."""
    curves = next((methods for part, methods in parts.items() if part.endswith("curve")), {})
    rewards = {method: of["reward as trained"]["ours"] for method, of in parts["at the end"].items()}
    constants = {method: reward for method, reward in rewards.items() if method not in AGENTS}
    _plot_curves(curves, constants, "dras_figure6", is_share=True)


def _figure_seven(parts: Parts) -> None:
    """Draw a Kiviat graph for every part, methods without reservations dashed as in the paper."""
    n_rows = -(-len(parts) // 2)
    size = (9, 4.2 * n_rows + 0.6)
    figure, grid = panels("dras", n_rows, 2, size, subplot_kw={"projection": "polar"})
    names = [metric.removesuffix(" h") for metric in KIVIAT]
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    for panel, (part, found) in zip(grid, parts.items(), strict=False):
        for number, method in enumerate(PAPER_METHODS):
            if method in found:
                radii = [found[method][f"{name}, normalized"]["ours"] for name in names]
                dashed = not (method == REFERENCE or method.startswith("DRAS"))
                style_of = {"linestyle": "--" if dashed else "-", "color": f"C{number}", "label": method}
                panel.plot([*angles, 0], [*radii, radii[0]], **style_of)
        panel.set(title=part, ylim=(0, 1), yticklabels=[])
        panel.set_xticks(angles, names)
    save(figure, "dras_figure7", legend_columns=5)


def _boxes(number: int, parts: Parts) -> None:
    """Draw the waits of the held-out week as boxes, a panel per method."""
    shown: dict[str, list[dict[str, str | float]]] = {}
    for row, columns in parts[HELD_OUT].items():
        method, kind = row.rsplit(", ", 1)
        box = {column.removeprefix("wait h, "): of["ours"] for column, of in columns.items()}
        places = {"whislo": "min", "whishi": "max", "med": "median", "q1": "q1", "q3": "q3", "mean": "mean"}
        values = {place: box[name] for place, name in places.items()}
        shown.setdefault(method, []).append({"label": kind.removesuffix(" nodes"), **values})
    figure, of_methods = panels("dras", 1, len(shown), (2.1 * len(shown), 3.6), sharey=True)
    for panel, (method, boxes) in zip(of_methods, shown.items(), strict=True):
        panel.bxp(boxes, showfliers=False, showmeans=True)
        panel.set(title=method, yscale="symlog")
        panel.tick_params("x", rotation=90)
    longest = max(float(box["whishi"]) for boxes in shown.values() for box in boxes)
    of_methods[0].set(ylabel="wait, h", ylim=(0, 1.2 * longest))
    save(figure, f"dras_figure{number}")


def _figure_ten(parts: Parts) -> None:
    """Draw mean and longest wait by week."""
    figure, both = panels("dras", 1, 2, (9, 3.6))
    found = next(iter(parts.values()))
    lines = {
        method: [columns for name, columns in found.items() if name.startswith(f"{method}, week")]
        for method in SURGE_METHODS
    }
    for method, weeks in lines.items():
        for panel, column in zip(both, ("mean wait h", "max wait h"), strict=True):
            waits = [of[column]["ours"] for of in weeks]
            panel.plot(range(1, len(weeks) + 1), waits, marker="o", label=method)
    for panel, title in zip(both, ("mean wait, h", "longest wait, h"), strict=True):
        panel.set(title=title, xlabel="week", yscale="log", xticks=range(1, len(lines[REFERENCE]) + 1))
    save(figure, "dras_figure10", legend_columns=4)


PLOTS: dict[str, Callable[[Parts], None]] = {
    "figure5": _figure_five,
    "figure6": _figure_six,
    "figure7": _figure_seven,
    "figure8": partial(_boxes, 8),
    "figure9": partial(_boxes, 9),
    "figure10": _figure_ten,
}

JITTER_FILE = "dras-jitter.json"
JITTER, VARIANTS = 0.05, 20
JITTERED = ("WFP3/B", "UNICEP/B", "DRAS-PPO")
"""Methods that are held beside `REFERENCE` on variants of the held-out days, agents with the shipped weights."""


def _measure_jitter(data: Path, path: Path) -> None:
    """Write mean and longest waits of the methods over those of the reference, on every variant."""
    asked = Asked(data, False, (0,))
    found: dict[str, dict[str, list[list[float]]]] = {}
    for site in SITES.values():
        (jobs,) = jobsets_of(site, HELD_OUT, asked)
        ratios = found[site.name] = {method: [] for method in JITTERED}
        for seed in range(VARIANTS):
            variant = varied_jobset(jobs, np.random.default_rng(seed), JITTER)
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


def _times() -> str:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    return aligned_table(["what", "ms", "at most"], [*decision_times(rng), *update_times(rng)], (None, 3, 1))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    parser.add_argument("--decisions", action="store_true")
    parser.add_argument("--jitter", type=Path, metavar="DATA", help="measure with jittered run times, and stop")
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
            draw(_parts(rows))
    places = {
        **selected_tables(options.rows, SELECTIONS),
        "variants": VARIANTS,
        "last_variant": VARIANTS - 1,
        "jitter": JITTER,
        "jittered": _jittered(path) if path.exists() else None,
    }
    write_template(__file__, "dras", places)


if __name__ == "__main__":
    main()
