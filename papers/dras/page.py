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
from papers.dras.decisions import decision_times, update_times
from papers.dras.figures import KIVIAT, metrics_of
from papers.dras.surge import METHODS
from papers.pages import Row, claims_section, measured_at, pyplot, read_rows, saved, write_page

Rows = list[Row]

INTENT = (
    "The agents are small networks of some 1,250 weights, not the paper's of 21.9 million. The DRAS paper's "
    "comparisons by `allocopt reproduce`, on what no training has seen: days 8 to 14 of the Theta "
    "trace (its busiest week), the last fifth of SDSC-SP2, and for each machine 20 synthetic weeks at load 0.85. The "
    "paper's own traces are not public but for this month of Theta, so published numbers stand beside ours for their "
    "order only. `/B` is with EASY backfilling. Spread is the standard deviation over trainings or seeds where there "
    "are several, else over jobsets; n is the number of simulations, jobs or updates behind a value."
)

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


def parts(rows: Rows) -> list[str]:
    """Machines and jobsets, or seeds, before the colon of a row."""
    return list(dict.fromkeys(row["row"].split(": ")[0] for row in rows))


def of(rows: Rows, part: str) -> dict[str, dict[str, Row]]:
    """Rows of a part, by what stands behind the colon, and column."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        where, name = row["row"].split(": ")
        if where == part:
            found.setdefault(name, {})[row["column"]] = row
    return found


def value(row: Row | None) -> Cell:
    """Value of a row."""
    return None if row is None else row["ours"]


def figure_seven(rows: Rows) -> list[str]:
    """Tables of all methods, and the Kiviat graphs of the paper's."""
    sections = ["## Figure 7: all methods", SEVEN]
    for part in parts(rows):
        found = of(rows, part)
        header = ["method", *COLUMNS, "wait spread", "n"]
        cells: list[list[Cell]] = []
        for method, by_column in found.items():
            spread, n = by_column["mean wait h"]["spread"], by_column["mean wait h"]["n"]
            cells.append([method, *(value(by_column.get(column)) for column in COLUMNS), spread, n])
        decimals = (None, *COLUMNS.values(), 2, 0)
        sections.append(f"### {part}\n\n{aligned_table(header, cells, decimals)}")
    return [*sections, kiviat_plot(rows)]


SEVEN = (
    "*Area*: of the Kiviat graph whose axes are mean wait, longest wait, mean response, mean slowdown and utilization, "
    "each scaled to 1 for the best method and 0 for the worst, as a share of the whole; *rank*: by area. Both among "
    "the paper's methods, and among all. *Worst jobset*: the greatest ratio of longest waits in one jobset."
)


def kiviat_plot(rows: Rows) -> str:
    """Draw a Kiviat graph for every part; methods without reservations dashed, as in the paper."""
    plt = pyplot("dras")
    every = parts(rows)
    n_rows = -(-len(every) // 2)
    figure, grid = plt.subplots(
        n_rows, 2, figsize=(9, 4.2 * n_rows + 0.6), layout="constrained", subplot_kw={"projection": "polar"}
    )
    names = [metric.removesuffix(" h") for metric in KIVIAT]
    angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
    panels = grid.ravel()[: len(every)]
    for panel, part in zip(panels, every, strict=True):
        found = of(rows, part)
        for number, method in enumerate(PAPER_METHODS):
            if method in found:
                radii = [found[method][f"{name}, normalized"]["ours"] for name in names]
                dashed = not (method == REFERENCE or method.startswith("DRAS"))
                style_of = {"linestyle": "--" if dashed else "-", "color": f"C{number}", "label": method}
                panel.plot([*angles, 0], [*radii, radii[0]], **style_of)
        panel.set(title=part, ylim=(0, 1), yticklabels=[])
        panel.set_xticks(angles, names)
    labelled = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=5, frameon=False)
    return saved(figure, "dras_figure7", "Kiviat graphs")


JITTER_FILE = "dras-jitter.json"
JITTER, VARIANTS = 0.05, 20
JITTERED = ("WFP3/B", "UNICEP/B", "two-level, unicep/sjf", "DRAS-A2C", "DRAS-PPO")
"""Methods that are held beside `REFERENCE` on variants of the held-out days, agents with the shipped weights."""


def measure_jitter(data: Path, path: Path) -> None:
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
    print(jitter_section(path))


def jitter_section(path: Path) -> str:
    """Show means and standard deviations over the variants."""
    cells: list[list[Cell]] = []
    for site, by_method in json.loads(path.read_text(encoding="utf-8")).items():
        for method, ratios in by_method.items():
            mean, spread = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1)
            cells.append([site, method, mean[0], spread[0], mean[1], spread[1], len(ratios)])
    header = ["held-out days of", "method", "mean wait / FCFS/B", "spread", "max wait / FCFS/B", "spread", "n"]
    return f"## Run times jittered\n\n{JITTER_TEXT}\n\n" + aligned_table(header, cells, (None, None, 3, 3, 2, 2, 0))


JITTER_TEXT = (
    f"The held-out days in {VARIANTS} variants (seeds 0 .. {VARIANTS - 1}), every run time multiplied by a log-normal "
    f"number of standard deviation {JITTER:g}, at most to the estimate; `--jitter`. Agents with the shipped weights. "
    "One schedule of a busy machine says little: in mean wait DRAS-PPO is not better than WFP3/B on SDSC-SP2, nor than "
    "UNICEP/B on Theta; its longest wait is shorter there."
)


def figure_of_boxes(number: int, by: str, kind: str) -> Callable[[Rows], list[str]]:
    """Return what shows waits as a table, and as boxes."""
    return lambda rows: [
        f"## Figure {number}: waits by {by}, on Theta",
        box_table(rows, kind),
        box_plot(rows, f"dras_figure{number}", f"Waits by {kind}"),
    ]


STATISTICS = ("median", "q3", "mean", "max")


def boxes(rows: Rows) -> dict[tuple[str, str, str], dict[str, Row]]:
    """Boxes by part, method and class."""
    found: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        part, rest = row["row"].split(": ")
        method, kind = rest.rsplit(", ", 1)
        found.setdefault((part, method, kind), {})[row["column"].removeprefix("wait h, ")] = row
    return found


def box_table(rows: Rows, kind: str) -> str:
    """Return a line per method and class."""
    cells: list[list[Cell]] = [
        [*key, box["max"]["n"], *(value(box[name]) for name in STATISTICS)] for key, box in boxes(rows).items()
    ]
    header = ["jobsets", "method", kind, "jobs", *(f"{name} wait h" for name in STATISTICS)]
    return aligned_table(header, cells, (None, None, None, 0, 2, 2, 2, 1))


def box_plot(rows: Rows, name: str, title: str) -> str:
    """Draw the boxes of the held-out week, a panel per method."""
    plt, found = pyplot("dras"), boxes(rows)
    methods = list(dict.fromkeys(method for part, method, _ in found if part == "held-out"))
    figure, panels = plt.subplots(1, len(methods), figsize=(2.1 * len(methods), 3.6), sharey=True, layout="constrained")
    for panel, method in zip(np.atleast_1d(panels), methods, strict=True):
        shown = {k: box for (part, other, k), box in found.items() if (part, other) == ("held-out", method)}
        panel.bxp(
            [
                {
                    "label": kind.removesuffix(" nodes"),
                    "whislo": box["min"]["ours"],
                    "whishi": box["max"]["ours"],
                    "med": box["median"]["ours"],
                    "q1": box["q1"]["ours"],
                    "q3": box["q3"]["ours"],
                    "mean": box["mean"]["ours"],
                }
                for kind, box in shown.items()
            ],
            showfliers=False,
            showmeans=True,
        )
        panel.set(title=method, yscale="symlog")
        panel.tick_params("x", rotation=90)
    longest = max(box["max"]["ours"] for (part, _, _), box in found.items() if part == "held-out")
    np.atleast_1d(panels)[0].set(ylabel="wait, h", ylim=(0, 1.2 * longest))
    return f"Whiskers end at the least and the longest wait, the mark is the mean.\n\n{saved(figure, name, title)}"


def table_four(rows: Rows) -> list[str]:
    """Show shares by mode beside the published ones."""
    found = ["## Table 4: shares by mode, on Theta", FOUR]
    modes = ("backfilled", "ready", "reserved")
    shares = [f"{mode}, {what}" for mode in modes for what in ("jobs", "core hours")]
    large = [f"{mode}, core hours of large jobs" for mode in modes]
    for part in parts(rows):
        cells: list[list[Cell]] = []
        for method, by_column in of(rows, part).items():
            pairs = [by_column[f"{column} %"] for column in shares]
            beside = [f"{row['ours']:.1f} ({row['published']:.1f})" for row in pairs]
            late = value(by_column["started after the promised time"])
            cells.append([method, *beside, *(value(by_column[f"{column} %"]) for column in large), late])
        table = aligned_table(["method", *shares, *large, "late"], cells, (*(None,) * 7, 1, 1, 1, 0))
        found.append(f"### {part}\n\n{table}")
    return found


FOUR = (
    "Per cent of the jobs and of the core hours, in brackets the paper's. *Large* jobs ask for a quarter of the "
    "machine or more. *Late*: jobs that ran by reservation after the time that they were promised."
)


def figure_ten(rows: Rows) -> list[str]:
    """Show mean and longest wait by week through the surge."""
    plt = pyplot("dras")
    first = parts(rows)[0]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    lines = {method: weeks_of(rows, first, method) for method in METHODS}
    for method, weeks in lines.items():
        for panel, column in zip(panels, ("mean wait h", "max wait h"), strict=True):
            panel.plot(
                range(1, len(weeks) + 1), [by[column]["ours"] for by in weeks.values()], marker="o", label=method
            )
    for panel, title in zip(panels, ("mean wait, h", "longest wait, h"), strict=True):
        panel.set(title=title, xlabel="week", yscale="log", xticks=range(1, len(lines[METHODS[0]]) + 1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    plot = saved(figure, "dras_figure10", "Waits through a surge")
    cells: list[list[Cell]] = [
        [part, name, *(value(by.get(column)) for column in TEN_COLUMNS)]
        for part in parts(rows)
        for name, by in of(rows, part).items()
        if not name.split(", ")[-1].startswith("week")
    ]
    table = aligned_table(["seed", "method and weeks", *TEN_COLUMNS], cells, (None, None, 2, 1, 0, 0))
    weeks = next(iter(lines.values()))
    loads = ", ".join(f"{by['load']['ours']:.2f}" for by in weeks.values())
    return ["## Figure 10: a surge of the load, on Theta", TEN, f"Loads by week: {loads}.", table, plot]


TEN = (
    "Synthetic weeks of the model that was fitted to the training days, of which the fifth to the eighth "
    "come with gaps x 0.75. The dynamic agent looks every week at the last two, and goes on learning; "
    "it stays as it is where what it learned is not better beyond doubt in mean waits, or worse in the longest."
)
TEN_COLUMNS = ("mean wait h", "max wait h", "times trained", "times changed")


def weeks_of(rows: Rows, part: str, method: str) -> dict[str, dict[str, Row]]:
    """Rows of the weeks of a method."""
    return {name: by for name, by in of(rows, part).items() if name.startswith(f"{method}, week")}


def figure_eleven(rows: Rows) -> list[str]:
    """Show the generic agent beside the customized one."""
    columns = ("mean wait h", "max wait h", "mean response h", "mean slowdown", "mean bounded slowdown", "utilization")
    cells: list[list[Cell]] = [
        [part, method, *(value(by[column]) for column in columns), by[columns[0]]["n"]]
        for part in parts(rows)
        for method, by in of(rows, part).items()
    ]
    table = aligned_table(["jobsets", "agent", *columns, "n"], cells, (None, None, 2, 1, 2, 1, 1, 4, 0))
    return ["## Figure 11: a generic agent", ELEVEN, table]


ELEVEN = (
    "The generic agent is trained on lublin_256_est, HPC2N and SDSC-SP2 in turn, by the same features, which do not "
    "depend on the machine. SDSC-SP2 is thus a machine that it has seen, Theta one that it has not."
)


def points(by_column: dict[str, Row], measure: str) -> tuple[list[float], list[float]]:
    """Return updates and values of a curve."""
    marker = f"{measure} at update "
    found = [(float(c.removeprefix(marker)), row["ours"]) for c, row in by_column.items() if c.startswith(marker)]
    return [update for update, _ in found], [total for _, total in found]


def curves_plot(lines: dict[str, dict[str, Row]], constants: dict[str, float], name: str, share: bool) -> str:
    """Draw total rewards and ratios of mean waits over updates."""
    plt = pyplot("dras")
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, measure in zip(panels, ("total_reward", "wait_ratio"), strict=True):
        for label, by_column in lines.items():
            xs, ys = points(by_column, measure)
            panel.plot(np.array(xs) / (xs[-1] if share else 1), ys, label=label)
    for (label, constant), dashes in zip(constants.items(), ("-", "--", "-.", ":"), strict=False):
        panels[0].axhline(constant, color="grey", linestyle=dashes, label=label)
    panels[0].set(title="total reward, validation jobsets", xlabel="share of the training" if share else "update")
    panels[1].set(title=f"mean wait / {REFERENCE}", xlabel="share of the training" if share else "update")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    return saved(figure, name, "Learning curves")


def figure_five(rows: Rows) -> list[str]:
    """Show the curves by the order of the phases."""
    part = parts(rows)[0]
    found = of(rows, part)
    cells: list[list[Cell]] = []
    for place in parts(rows):
        for order, by_column in of(rows, place).items():
            last = points(by_column, "total_reward")[1][-1]
            best = value(by_column["best score"]), value(by_column["update of the best score"])
            cells.append([place, order, last, points(by_column, "wait_ratio")[1][-1], *best])
    header = ["seed", "phases", "total reward at the end", "mean wait / FCFS/B", "best score", "at update"]
    lines = {order: found[order] for order in ORDERS if order in found}
    return [
        "## Figure 5: order of the phases",
        FIVE,
        aligned_table(header, cells, (None, None, 1, 3, 3, 0)),
        curves_plot(lines, {}, "dras_figure5", share=False),
    ]


FIVE = (
    "DRAS-PG on Theta, as in the paper. Validation jobsets: synthetic weeks at load 0.85. *Score*: mean ratio of mean "
    "waits to those of FCFS with EASY, plus what the ratios of longest waits are beyond 1.25; less is better."
)


def figure_six(rows: Rows) -> list[str]:
    """Show the agents' curves, and what all methods collect at the end."""
    ends = of(rows, "at the end")
    columns = ("reward as trained", "reward by Eq. 1")
    cells: list[list[Cell]] = [
        [method, *(by[column]["ours"] for column in columns), by[columns[0]]["spread"], by[columns[0]]["n"]]
        for method, by in ends.items()
    ]
    curves = [part for part in parts(rows) if part.endswith("curve")]
    lines = of(rows, curves[0]) if curves else {}
    constants = {method: by[columns[0]]["ours"] for method, by in ends.items() if method not in AGENTS}
    table = aligned_table(["method", *columns, "spread", "n"], cells, (None, 1, 1, 1, 0))
    return ["## Figure 6: total reward", SIX, table, curves_plot(lines, constants, "dras_figure6", share=True)]


SIX = (
    "Mean total reward of an episode over the validation jobsets of Theta, all methods played through the environment. "
    "*As trained*: the reward of DRAS-PPO. Eq. 1 pays per choice, for taking what has waited longest and what is "
    "large, and a reservation is a choice of its own: its sum is no measure of a schedule, and first come, first "
    "served collects much of it."
)


def decisions_section() -> list[str]:
    """Time decisions and updates."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    cells: list[list[Cell]] = [[what, ms, bar] for what, ms, bar in (*decision_times(rng), *update_times(rng))]
    return [
        "## Times",
        "One core, the paper's network of Theta (N = 4,360, W = 50), medians of CPU time; *bar*: what was asked for.",
        aligned_table(["what", "ms", "bar"], cells, (None, 3, 1)),
    ]


SECTIONS = (
    ("dras-figure5", figure_five),
    ("dras-figure6", figure_six),
    ("dras-figure7", figure_seven),
    ("dras-figure8", figure_of_boxes(8, "size of job", "size")),
    ("dras-figure9", figure_of_boxes(9, "mode", "mode")),
    ("dras-table4", table_four),
    ("dras-figure10", figure_ten),
    ("dras-figure11", figure_eleven),
)


def sections(folder: Path) -> list[str]:
    """Return the sections of the page."""
    known = [(rows, section) for name, section in SECTIONS if (rows := read_rows(folder, name))]
    found = [text for rows, section in known for text in section(rows)]
    if (folder / JITTER_FILE).exists():
        found.append(jitter_section(folder / JITTER_FILE))
    return [measured_at([row for rows, _ in known for row in rows]), claims_section("dras"), *found]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    parser.add_argument("--decisions", action="store_true")
    parser.add_argument("--jitter", type=Path, metavar="DATA", help="measure with jittered run times, and stop")
    options = parser.parse_args()
    if options.jitter:
        measure_jitter(options.jitter, options.rows / JITTER_FILE)
    elif options.decisions:
        print("\n\n".join(decisions_section()))
    else:
        write_page("dras", "DRAS beside the paper", INTENT, [*sections(options.rows), *decisions_section()])


if __name__ == "__main__":
    main()
