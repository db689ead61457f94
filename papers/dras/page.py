"""DRAS: times of decisions, and a page with plots of what ``allocopt reproduce`` wrote.

Run ``allocopt reproduce dras-figure5`` to ``dras-figure11`` and ``dras-table4`` first, with ``--option trained=FOLDER``
for the weights of several trainings; ``--rows`` is the folder with their files, and what is not there is left out.
``--decisions`` prints the times of decisions and updates alone and writes nothing. ``--jitter DATA`` schedules the
held-out days of the folder with the traces with run times jittered, and writes what it measured to the same folder
instead of the page. Needs the extras train and plot.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
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
from papers.dras.figures import KIVIAT, MODES, SURGE_METHODS, metrics_of
from papers.dras.network import decision_times, update_times
from papers.pages import ByRow, Row, by_row, measured_at, ours, panels, read_rows, save, write_template

Parts = dict[str, ByRow]
"""Rows by what stands before the colon, machine and jobsets or a seed, and what stands behind it."""
_Line = tuple[Sequence[Cell], dict[str, Row]]
"""Names of a line, and what was measured by column."""


def _parts(rows: list[Row]) -> Parts:
    found: Parts = {}
    for row, columns in by_row(rows).items():
        part, name = row.split(": ")
        found.setdefault(part, {})[name] = columns
    return found


def _table(names: list[str], lines: Iterable[_Line], columns: dict[str, int], also: dict[str, str]) -> str:
    """Return a table of columns with their decimals; ``also`` are spread or n of the first one, by their headings."""
    first, *_ = columns
    cells: list[list[Cell]] = []
    for line, of in lines:
        cells.append([*line, *(ours(of.get(column)) for column in columns), *(of[first][key] for key in also.values())])
    decimals = (*(None,) * len(names), *columns.values(), *(0 if key == "n" else columns[first] for key in also))
    return aligned_table([*names, *columns, *also], cells, decimals)


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


def _figure_five(parts: Parts) -> str:
    cells: list[list[Cell]] = []
    for part, orders in parts.items():
        for order, columns in orders.items():
            last = (_points(columns, measure)[1][-1] for measure in ("total_reward", "wait_ratio"))
            best = (ours(columns[name]) for name in ("best score", "update of the best score"))
            cells.append([part, order, *last, *best])
    found = next(iter(parts.values()))
    _plot_curves({order: found[order] for order in ORDERS if order in found}, {}, "dras_figure5", is_share=False)
    header = ["seed", "phases", "total reward at the end", "mean wait / FCFS/B", "best score", "at update"]
    return aligned_table(header, cells, (None, None, 1, 3, 3, 0))


def _figure_six(parts: Parts) -> str:
    """Draw the agents' curves, and return what all methods collect at the end."""
    ends, columns = parts["at the end"], {"reward as trained": 1, "reward by Eq. 1": 1}
    curves = next((methods for part, methods in parts.items() if part.endswith("curve")), {})
    constants = {method: of["reward as trained"]["ours"] for method, of in ends.items() if method not in AGENTS}
    _plot_curves(curves, constants, "dras_figure6", is_share=True)
    return _table(["method"], (([method], of) for method, of in ends.items()), columns, {"spread": "spread", "n": "n"})


COLUMNS = {
    "mean wait h": 2,
    f"mean wait / {REFERENCE}": 3,
    "max wait h": 1,
    f"max wait / {REFERENCE}": 2,
    f"max wait / {REFERENCE}, worst jobset": 2,
    "mean response h": 2,
    "mean slowdown": 1,
    "utilization": 4,
    "area": 3,
    "rank": 0,
    "area, all methods": 3,
    "rank, all methods": 0,
}
"""Columns of the table of Figure 7, and their decimals."""


def _figure_seven(parts: Parts) -> str:
    """Draw a Kiviat graph for every part, methods without reservations dashed as in the paper; return all numbers."""
    n_rows = -(-len(parts) // 2)
    size = (9, 4.2 * n_rows + 0.6)
    figure, grid = panels("dras", n_rows, 2, size, subplot_kw={"projection": "polar"})
    names = [metric.removesuffix(" h") for metric in KIVIAT]
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    tables = []
    for panel, (part, found) in zip(grid, parts.items(), strict=False):
        for number, method in enumerate(PAPER_METHODS):
            if method in found:
                radii = [found[method][f"{name}, normalized"]["ours"] for name in names]
                dashed = not (method == REFERENCE or method.startswith("DRAS"))
                style_of = {"linestyle": "--" if dashed else "-", "color": f"C{number}", "label": method}
                panel.plot([*angles, 0], [*radii, radii[0]], **style_of)
        panel.set(title=part, ylim=(0, 1), yticklabels=[])
        panel.set_xticks(angles, names)
        lines = (([method], columns) for method, columns in found.items())
        table = _table(["method"], lines, COLUMNS, {"wait spread": "spread", "n": "n"})
        tables.append(f"### {part}\n\n{table}")
    save(figure, "dras_figure7", legend_columns=5)
    return "\n\n".join(tables)


STATISTICS = ("median", "q3", "mean", "max")


def _boxes(number: int, by: str, parts: Parts) -> str:
    """Draw the waits of the held-out week as boxes, a panel per method, and return all."""
    cells: list[list[Cell]] = []
    shown: dict[str, list[dict[str, str | float]]] = {}
    for part, rows in parts.items():
        for row, columns in rows.items():
            method, kind = row.rsplit(", ", 1)
            box = {column.removeprefix("wait h, "): of for column, of in columns.items()}
            cells.append([part, method, kind, box["max"]["n"], *(ours(box[name]) for name in STATISTICS)])
            if part == HELD_OUT:
                places = {"whislo": "min", "whishi": "max", "med": "median", "q1": "q1", "q3": "q3", "mean": "mean"}
                values = {place: box[name]["ours"] for place, name in places.items()}
                shown.setdefault(method, []).append({"label": kind.removesuffix(" nodes"), **values})
    figure, of_methods = panels("dras", 1, len(shown), (2.1 * len(shown), 3.6), sharey=True)
    for panel, (method, boxes) in zip(of_methods, shown.items(), strict=True):
        panel.bxp(boxes, showfliers=False, showmeans=True)
        panel.set(title=method, yscale="symlog")
        panel.tick_params("x", rotation=90)
    longest = max(float(box["whishi"]) for boxes in shown.values() for box in boxes)
    of_methods[0].set(ylabel="wait, h", ylim=(0, 1.2 * longest))
    save(figure, f"dras_figure{number}")
    header = ["jobsets", "method", by, "jobs", *(f"{name} wait h" for name in STATISTICS)]
    return aligned_table(header, cells, (None, None, None, 0, 2, 2, 2, 1))


def _table_four(parts: Parts) -> str:
    modes = [mode.name.lower() for mode in MODES]
    shares = [f"{mode}, {what}" for mode in modes for what in ("jobs", "core hours")]
    large = [f"{mode}, core hours of large jobs" for mode in modes]
    tables = []
    for part, methods in parts.items():
        cells: list[list[Cell]] = []
        for method, columns in methods.items():
            pairs = (columns[f"{share} %"] for share in shares)
            beside = (f"{row['ours']:.1f} ({row['published']:.1f})" for row in pairs)
            late = ours(columns["started after the promised time"])
            cells.append([method, *beside, *(ours(columns[f"{share} %"]) for share in large), late])
        table = aligned_table(["method", *shares, *large, "late"], cells, (*(None,) * 7, 1, 1, 1, 0))
        tables.append(f"### {part}\n\n{table}")
    return "\n\n".join(tables)


def _figure_ten(parts: Parts) -> str:
    """Draw mean and longest wait by week, and return the loads and what the whole comes to."""
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
    columns = {"mean wait h": 2, "max wait h": 1, "times trained": 0, "times changed": 0}
    whole = [([part, name], of) for part, rows in parts.items() for name, of in rows.items() if ", week " not in name]
    table = _table(["seed", "method and weeks"], whole, columns, {})
    loads = ", ".join(f"{of['load']['ours']:.2f}" for of in lines[REFERENCE])
    return f"Loads by week: {loads}.\n\n{table}"


def _figure_eleven(parts: Parts) -> str:
    names = ("mean wait h", "max wait h", "mean response h", "mean slowdown", "mean bounded slowdown", "utilization")
    columns = dict(zip(names, (2, 1, 2, 1, 1, 4), strict=True))
    lines = (([part, agent], of) for part, agents in parts.items() for agent, of in agents.items())
    return _table(["jobsets", "agent"], lines, columns, {"n": "n"})


SECTIONS: dict[str, Callable[[Parts], str]] = {
    "figure5": _figure_five,
    "figure6": _figure_six,
    "figure7": _figure_seven,
    "figure8": partial(_boxes, 8, "size"),
    "figure9": partial(_boxes, 9, "mode"),
    "table4": _table_four,
    "figure10": _figure_ten,
    "figure11": _figure_eleven,
}

JITTER_FILE = "dras-jitter.json"
JITTER, VARIANTS = 0.05, 20
JITTERED = ("WFP3/B", "UNICEP/B", "two-level, unicep/sjf", "DRAS-A2C", "DRAS-PPO")
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
            cells.append([site, method, mean[0], spread[0], mean[1], spread[1], len(ratios)])
    header = ["held-out days of", "method", "mean wait / FCFS/B", "spread", "max wait / FCFS/B", "spread", "n"]
    return aligned_table(header, cells, (None, None, 3, 3, 2, 2, 0))


def _times() -> str:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    return aligned_table(["what", "ms", "bar"], [*decision_times(rng), *update_times(rng)], (None, 3, 1))


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
    rows = {name: read_rows(options.rows, f"dras-{name}") for name in SECTIONS}
    places = {
        "measured": measured_at([row for found in rows.values() for row in found]),
        **{name: show(_parts(rows[name])) if rows[name] else None for name, show in SECTIONS.items()},
        "variants": VARIANTS,
        "last_variant": VARIANTS - 1,
        "jitter": JITTER,
        "jittered": _jittered(path) if path.exists() else None,
        "times": _times(),
    }
    write_template(__file__, "dras", places)


if __name__ == "__main__":
    main()
