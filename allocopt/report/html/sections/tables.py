"""Sections of results that are rows of numbers: simulations, reproductions, energy, learning curves."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean, median

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.bars import Measure, bars_figure
from allocopt.report.html.results import ResultFile, SimulationRecord
from allocopt.report.plot import Axis, Colours, Figure, Panel, evenly, smoothed
from allocopt.report.rows import SimulateGroupRow
from allocopt.report.simulations import SimulatedJobs, single_verdict
from allocopt.report.what_if_groups import FEWEST_JOBS
from allocopt.report.words import Cell, duration, number, percent, shortened, typographic
from allocopt.reproduction import ReproductionRow
from allocopt.simulator.groups import GROUPINGS, UNKNOWN

_BOOKKEEPING = ("seconds", "samples", "learning_rate", "steps", "time_s")
_FAVOURITES = ("mean_return", "return", "reward", "loss", "value_loss", "entropy", "gap", "valid", "score")
_MOST_MEASURES, _MOST_POINTS, _MOST_DRAWN = 8, 400, 1e100

# Largest numbers of rows and columns of a paper's numbers that are drawn, and of bars in a figure.
_MOST_ROWS, _MOST_COLUMNS, _MOST_BARS = 40, 6, 24

_MOST_PERCENT = 1000.0

_Run = Mapping[str, FloatArray]  # Columns by name


def curves_section(files: Sequence[ResultFile]) -> Section:
    """Return the section of learning curves that have the same columns."""
    columns = list(files[0].records[0].values)
    runs: dict[str, _Run] = {}
    for label, file in zip(ResultFile.labels(files), files, strict=True):
        # Empty cells and numbers too large for an axis become NaN.
        values = np.array([[float(record.values[name] or "nan") for name in columns] for record in file.records])
        runs[label] = dict(zip(columns, np.where(np.abs(values) <= _MOST_DRAWN, values, np.nan).T, strict=True))

    def varies(values: FloatArray) -> bool:
        known = _finite(values)
        return len(known) > 0 and float(known.max()) > float(known.min())

    def rank(name: str) -> int:
        # Measures by which trainings are judged come first.
        return next((place for place, word in enumerate(_FAVOURITES) if word in name), len(_FAVOURITES))

    measures = [name for name in columns[1:] if any(varies(run[name]) for run in runs.values())] or columns[1:2]
    # Counters increase in every training, so they are drawn only if there is nothing else.
    judged = [name for name in measures if name not in _BOOKKEEPING] or measures
    drawn = sorted(judged, key=rank)[:_MOST_MEASURES]
    figure = _figure(columns[0], sorted(drawn, key=columns.index), runs)
    updates = max(len(run[columns[0]]) for run in runs.values())
    sources = ", ".join(dict.fromkeys(file.path.name for file in files))
    rows: list[tuple[Cell, ...]] = []
    keys = []
    for (index, (label, run)), name in product(enumerate(runs.items()), measures):
        known = _finite(run[name])
        if len(known):
            tail = known[-max(1, len(known) // 20) :]
            cells = (float(known[0]), float(tail.mean()), float(known.min()), float(known.max()))
            rows.append((label, name.replace("_", " "), *cells))
            keys.append(index)
    titles = ("first", "last twentieth", "least", "most")
    held = (Column("run"), Column("measure"), *(Column(each, 0, is_mixed=True) for each in titles))
    table = Table("Measures", held, tuple(rows), tuple(keys) if len(runs) > 1 else ())
    verdict = _training_verdict(columns[0], drawn[0], runs, updates)
    return Section("Training", (verdict,), parts=(table, figure), source=sources)


def _training_verdict(x: str, measure: str, runs: Mapping[str, _Run], updates: int) -> str:
    """Return a sentence on the measure by which trainings are judged first."""
    name = measure.replace("_", " ")
    ends = {}
    for label, run in runs.items():
        known = _finite(run[measure])
        if len(known):
            ends[label] = (float(known[0]), float(known[-max(1, len(known) // 20) :].mean()))
    if not ends:
        return f"No run has a value of {name}."
    if len(ends) == 1:
        ((first, last),) = ends.values()
        span = f"{updates:,} rows of the curve, by {x.replace('_', ' ')}"
        return f"The {name} goes from {number(first)} to {number(last)}, the mean of the last twentieth of {span}."
    low, high = (choose(ends, key=lambda label: ends[label][1]) for choose in (min, max))
    return (
        f"The {name} at the end of {len(ends)} runs is highest in {high}, {number(ends[high][1])}, and lowest in "
        f"{low}, {number(ends[low][1])} (means of the last twentieth)."
    )


def _finite(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


def _figure(x: str, measures: Sequence[str], runs: Mapping[str, _Run]) -> Figure:
    said = []
    for (name, run), measure in product(runs.items(), measures):
        known = _finite(run[measure])
        if len(known):
            last = smoothed(run[measure], 0.05)[-1]
            said.append(f"{measure} of {name} goes from {number(known[0])} to {number(float(last))}")

    def draw(colours: Colours) -> Iterator[Panel]:
        title = x.replace("_", " ")
        across = Axis.linear(np.concatenate([run[x] for run in runs.values()]), title, title, is_tight=True)
        for measure in measures:
            y = Axis.linear(np.concatenate([run[measure] for run in runs.values()]))
            panel = Panel(colours, across, y, 170, measure.replace("_", " "))
            for index, (name, run) in enumerate(runs.items()):
                every = evenly(len(run[x]), _MOST_POINTS)
                panel.line(index, run[x][every], run[measure][every], is_faint=True)
                panel.line(index, run[x][every], smoothed(run[measure], 0.05)[every], name)
            yield panel

    return Figure(
        "learning-curves",
        "Learning curves",
        f"Measures of training over {x}. {'; '.join(said[:12])}.",
        draw,
        "A faint line shows every update. A strong one is the mean over the updates before it, a twentieth of all.",
        tuple(runs),
    )


def simulations_section(files: Sequence[ResultFile]) -> Section:
    """Return the section of simulations.

    Simulations of a sweep are named by trace, policy and allocator, others by their files. Bars are means over seeds.
    """
    source = ", ".join(file.path.name for file in files)
    rows: list[tuple[str, SimulationRecord]] = []
    held = [file.rows(SimulationRecord) for file in files]
    has_traces = len({row.trace for own in held for row in own}) > 1
    labels = ResultFile.labels(files)
    parts_of_groups = tuple(
        _group_tables({name: file.group_rows(SimulateGroupRow) for name, file in zip(labels, files, strict=True)})
    )
    for own, name in zip(held, labels, strict=True):
        for place, row in enumerate(own, 1):
            label = name if len(own) == 1 else f"{name} {place}"
            if row.policy is not None:
                policy = row.policy if row.backfill in (None, "none") else f"{row.policy}+{row.backfill}"
                label = ", ".join(part for part in (row.trace if has_traces else None, policy, row.allocator) if part)
            rows.append((label, row))
    if not rows:
        return Section("Simulations", source=source)
    columns: tuple[Column, ...] = (
        Column("simulation"), Column("seed", 0), Column("jobs", 0), Column("mean wait s", 1), Column("max wait s", 0),
        Column("mean bounded slowdown", 2), Column("utilization %", 2), Column("makespan s", 0), Column("jobs/s", 0),
    )  # fmt: skip
    cells: list[tuple[Cell, ...]] = [
        (
            label, row.seed, row.jobs, row.mean_wait_s, row.max_wait_s, row.mean_bounded_slowdown,
            100 * row.utilization, row.makespan_s, row.jobs_per_s,
        )
        for label, row in rows
    ]  # fmt: skip
    if all(row.seed is None for _, row in rows):
        columns, cells = (columns[0], *columns[2:]), [(each[0], *each[2:]) for each in cells]
    table = Table("Simulations", columns, tuple(cells))
    if len(rows) == 1:
        ((_, row),) = rows
        verdict = single_verdict(row.jobs, row.mean_wait_s, row.max_wait_s, row.utilization)
        return Section("Simulation", (verdict,), parts=(table, *parts_of_groups), source=source)
    verdicts = _simulations_verdict(rows, files)
    by_label: dict[str, list[SimulationRecord]] = {}
    for label, row in rows:
        by_label.setdefault(label, []).append(row)
    if len(by_label) > _MOST_BARS:
        return Section("Simulations", verdicts, parts=(table, *parts_of_groups), source=source)
    measures = [
        Measure(title, tuple(fmean(getattr(row, name) for row in own) for own in by_label.values()), shown, best)
        for title, name, shown, best in (
            ("Mean wait", "mean_wait_s", duration, "min"),
            ("Mean bounded slowdown", "mean_bounded_slowdown", number, "min"),
            ("Utilization", "utilization", percent, "max"),
            ("Longest wait", "max_wait_s", duration, "min"),
        )
    ]
    bars = bars_figure("Simulations side by side", list(by_label), measures)
    return Section("Simulations", verdicts, parts=(table, *parts_of_groups, bars), source=source)


def _simulations_verdict(rows: Sequence[tuple[str, SimulationRecord]], files: Sequence[ResultFile]) -> tuple[str, ...]:
    """Return the verdict on simulations of the same jobs: by policy over the traces of a sweep, or by name."""
    if any(row.trace is not None for _, row in rows):
        # Samples are traces: simulations of one trace with several seeds are alike.
        traces = sorted({str(row.trace) for _, row in rows})
        names = [label.removeprefix(f"{row.trace}, ") for label, row in rows]
        noun, sample = "policies", "traces"
        places = [traces.index(str(row.trace)) for _, row in rows]
    else:
        traces, noun, sample = [""], "simulations", ""
        names, places = [label for label, _ in rows], [0] * len(rows)
    jobs: dict[str, dict[int, int]] = {}
    waits, slowdowns = ({name: np.zeros((len(traces), 2)) for name in names} for _ in range(2))
    for name, place, (_, row) in zip(names, places, rows, strict=True):
        jobs.setdefault(name, {})[place] = row.jobs
        waits[name][place] += 1.0, row.mean_wait_s
        slowdowns[name][place] += 1.0, row.mean_bounded_slowdown
    if any(own != jobs[names[0]] for own in jobs.values()):
        return ("There is no verdict, because the simulations do not have the same jobs.",)
    # The groups of a file are those of its simulation only if it has one.
    groups: dict[str, dict[str, FloatArray]] = {}
    if not sample and len(rows) == len(files):
        for name, file in zip(names, files, strict=True):
            for group in file.group_rows(SimulateGroupRow):
                if group.jobs >= FEWEST_JOBS:
                    title = GROUPINGS[group.by].title if group.by in GROUPINGS else group.by
                    own = groups.setdefault(f"{title} {shortened(group.group)}", {})
                    own[name] = np.array([[1.0, group.mean_wait_s]])
    complete = {title: own for title, own in groups.items() if list(own) == names}
    found = SimulatedJobs(waits, slowdowns, noun, complete, sample).verdict()
    return tuple(map(typographic, found))


def simulation_groups_section(source: str, rows: Sequence[SimulateGroupRow]) -> Section:
    """Return the section of a file that holds only groups of jobs of simulations."""
    longest = max(rows, key=lambda row: row.mean_wait_s)
    own = [row for row in rows if row.by == longest.by]
    mean = sum(row.jobs * row.mean_wait_s for row in own) / sum(row.jobs for row in own)
    title = GROUPINGS[longest.by].title if longest.by in GROUPINGS else longest.by
    verdict = (
        f"Jobs of {title} {shortened(longest.group)} wait longest, {duration(longest.mean_wait_s)} on average; all "
        f"jobs wait {duration(mean)}."
    )
    return Section("Simulations by groups of jobs", (verdict,), parts=tuple(_group_tables({"": rows})), source=source)


def _group_tables(simulations: Mapping[str, Sequence[SimulateGroupRow]]) -> Iterator[Table]:
    """Yield a table for each way of grouping, with a line per group and simulation."""
    columns = (
        Column("simulation"), Column("jobs", 0), Column("mean wait s", 0), Column("max wait s", 0),
        Column("mean bounded slowdown", 2), Column("starved jobs", 0), Column("mean hop cost", 0),
    )  # fmt: skip
    every = [(name, row) for name, rows in simulations.items() for row in rows]
    for by in dict.fromkeys(row.by for _, row in every):
        if {row.group for _, row in every if row.by == by} == {UNKNOWN}:
            continue
        places = list(dict.fromkeys(row.group for _, row in every if row.by == by))
        own = sorted((each for each in every if each[1].by == by), key=lambda each: places.index(each[1].group))
        cells: list[tuple[Cell, ...]] = [
            (
                row.group, name, row.jobs, row.mean_wait_s, row.max_wait_s, row.mean_bounded_slowdown, row.starved,
                row.mean_hop_cost,
            )
            for name, row in own
        ]  # fmt: skip
        title = GROUPINGS[by].title if by in GROUPINGS else by
        titles: tuple[Column, ...] = (Column(title), *columns)
        if len(simulations) == 1:
            titles, cells = (titles[0], *titles[2:]), [(each[0], *each[2:]) for each in cells]
        yield Table(f"By {title}", titles, tuple(cells))


def reproduction_section(source: str, rows: Sequence[ReproductionRow]) -> Section:
    """Return the section of a table or figure of a paper: its numbers beside ours."""
    artifact = rows[0].artifact
    table = Table(
        "Every number",
        (
            Column("row"), Column("column"), Column("published", 0, is_mixed=True),
            Column("ours", 0, is_mixed=True), Column("standard deviation", 0, is_mixed=True), Column("n", 0),
        ),
        tuple((row.row, row.column, row.published, row.ours, row.spread, row.n) for row in rows),
    )  # fmt: skip
    return Section(
        f"Reproduction {artifact}", (_published_verdict(rows),), parts=(table, *_published_figures(rows)), source=source
    )


def _published_verdict(rows: Sequence[ReproductionRow]) -> str:
    """Return a sentence on the differences from the published numbers."""
    apart = [
        (abs(row.ours / row.published - 1.0), row)
        for row in rows
        if row.ours is not None and row.published is not None and row.published != 0
    ]
    if not apart:
        return f"None of {len(rows):,} numbers can be compared with a published one."
    most, where = max(apart, key=lambda each: each[0])
    half = median(each for each, _ in apart)
    return (
        f"Our numbers differ from {len(apart):,} published ones by {_difference(half)} in the median and by "
        f"{_difference(most)} at most ({where.row}, {where.column})."
    )


def _difference(share: float) -> str:
    return percent(share) if share < _MOST_PERCENT else "a factor of more than 1,000"


def _published_figures(rows: Sequence[ReproductionRow]) -> Iterator[Figure]:
    """Yield the figure of measured numbers beside published ones, unless none was measured."""
    names = list(dict.fromkeys(row.column for row in rows if row.ours is not None))
    known = {row.column for row in rows if row.published is not None}
    # Columns with published numbers come first, because there is not room for all.
    columns = sorted(names, key=lambda name: name not in known)[:_MOST_COLUMNS]
    if not columns:
        return
    labels = list(dict.fromkeys(row.row for row in rows))[:_MOST_ROWS]
    said = [
        f"{row.row}, {row.column}: {number(row.ours)} beside {number(row.published)}"
        for row in rows
        if row.ours is not None and row.published is not None
    ]

    def draw(colours: Colours) -> Iterator[Panel]:
        hollow = {"fill": "transparent", "stroke": colours["ink"], "strokeWidth": 1.2}
        for column in columns:
            placed = [(labels.index(row.row) + 0.5, row) for row in rows if row.column == column and row.row in labels]
            ours = [(row.ours, place, abs(row.spread or 0.0)) for place, row in placed if row.ours is not None]
            theirs = [(row.published, place) for place, row in placed if row.published is not None]
            ends = [value + sign * spread for value, _, spread in ours for sign in (-1, 1)]
            across = Axis.linear(np.array([*ends, *(value for value, _ in theirs)]))
            panel = Panel(colours, across, Axis.names(labels), 24.0 * len(labels), column)
            panel.rules((row + 0.5 for row in range(len(labels))), "grid")
            spans = [(value - spread, place - 0.04, 2 * spread, 0.08) for value, place, spread in ours if spread]
            panel.boxes(np.array(spans).reshape(-1, 4), ["c1"] * len(spans))
            titles = [
                f"{labels[int(place)]}: {number(value)}" + (f" ± {number(spread)}" if spread else "")
                for value, place, spread in ours
            ]
            values, places, _ = np.array(ours).reshape(-1, 3).T
            panel.points(0, values, places, titles, size=4.5)
            values, places = np.array(theirs).reshape(-1, 2).T
            panel.points(
                0, values, places, [f"the paper's: {number(value)}" for value, _ in theirs], size=6.5, **hollow
            )
            yield panel

    yield Figure(
        "published",
        "Ours beside the paper's",
        f"Values measured and published. {'; '.join(said[:15])}.",
        draw,
        "Filled marks are ours, with one standard deviation to either side if there are several runs. Hollow marks are "
        "the paper's.",
    )


def energy_section(file: ResultFile) -> Section:
    """Return the section of the energy of jobs, nodes, clusters and the machine."""
    energies, products = file.numbers("energy_j"), file.numbers("energy_delay_js")
    rows = tuple(
        (record.values["part"], record.values["name"], energy, product)
        for record, energy, product in zip(file.records, energies.tolist(), products.tolist(), strict=True)
    )
    columns = (Column("part"), Column("name"), Column("energy J", 1), Column("energy-delay J s", 1))
    whole = next((row for row in rows if row[0] == "machine"), None)
    verdict = "" if whole is None else f"The machine takes {number(float(whole[2]))} J in all."
    return Section(
        "Energy", tuple(filter(None, (verdict,))), parts=(Table("Energy", columns, rows),), source=file.path.name
    )
