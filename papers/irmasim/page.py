"""IRMaSim's agents: a page with plots of what ``allocopt reproduce`` wrote, other objectives, unseen jobs and times.

Run ``allocopt reproduce irmasim-figure1`` and ``irmasim-figure7`` to ``irmasim-figure11`` first. ``--rows`` is the
folder with their files. Those of Figures 10 and 11 under another name ``irmasim-figure10-LABEL.json``, by
``--out``, with another agent or entropy, come as further rows of the table. Needs the extras train and plot.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.envs.policy_selection.observation import LEVELS
from allocopt.envs.policy_selection.task import Episodes, Options
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.multicore.policies import JobSelection, NodeSelection
from allocopt.simulator.simulate import simulate
from learned.irmasim.agents import Agent
from learned.irmasim.environment import HETEROGENEOUS, PAPERS, SUBSET, jobsets_of, policy_rewards
from learned.irmasim.training import IrmasimTraining
from papers.irmasim.figures import BELOW, CLASS_A, ENDS, ENERGY, KINDS, MEASURES, NODES, WORST, WORST_OF_SUBSET
from papers.pages import ByRow, Row, by_row, measured_at, panels, read_rows, save, write_template

OBJECTIVES: dict[str, dict[str, Any]] = {
    "energy": {},
    "makespan": {"environments": 64, "episodes": 38_400, "ent_coef": 2e-4},
    "energy_delay": {"environments": 64, "episodes": 38_400, "ent_coef": 5e-4},
}
"""Options of the trainings."""
SEEDS = (0, 1, 2)
UNSEEN = range(1000, 1020)
"""Seeds of batches that no training has seen."""
SIDE_BY_SIDE, TIMED_STEPS = 64, 400
BATCHES = (
    "Batches of jobs that come within two minutes and start in the order of their submission. Mean over seeds. "
    "*Published*: by how much the paper's baseline is below the *real* cluster (its IRMaSim: 3 % in makespan and 10 % "
    "in energy on the homogeneous cluster, 5 % on the other), and the power that it gives for IRMaSim and Batsim; the "
    "real cluster took 400 W. The paper does not say how many jobs a batch has, or by which policy they start."
)
"""Stands in the sections of both figures of batches."""


def _figure_one(found: ByRow) -> str:
    """Draw when each job ran, by node, and return the slowdowns."""
    figure, both = panels("irmasim", 1, 2, (9, 3), sharex=True)
    for panel, model in zip(both, KINDS, strict=True):
        places = [row for row in found if row.startswith(f"{model}: job")]
        for line, place in enumerate(sorted(places, key=lambda row: row.split(", ")[1])):
            start, end = (found[place][f"{which} s"]["ours"] for which in ("start", "end"))
            colour = "tab:blue" if " ep" in place else "tab:orange"
            panel.barh(line, end - start, left=start, color=colour, edgecolor="white")
        at = len(places) - sum("slow" in place for place in places)
        panel.axhline(at - 0.5, color="black", linewidth=0.5)
        panel.set(title=model, xlabel="s", yticks=[at / 2, (at + len(places)) / 2], yticklabels=["fast", "slow"])
    save(figure, "irmasim_figure1")
    cells: list[list[Cell]] = []
    for model in KINDS:
        for benchmark in CLASS_A:
            for node in NODES.values():
                of = found[f"{model}: {benchmark}.A, {node} node"]
                mean, most = (of[f"{which} times as long as alone"] for which in ("mean", "most"))
                cells.append([model, f"{benchmark}.A", node, mean["ours"], most["ours"], most["published"], mean["n"]])
    header = ["model", "benchmark", "node", "mean times as long", "most", "published", "n"]
    return aligned_table(header, cells, (None, None, None, 2, 2, 1, 0))


def _batches(rows: list[Row], name: str) -> str:
    """Draw makespans and energies by size of batch, and return them with the power."""
    found = by_row(rows)
    sizes = list(dict.fromkeys(row.split(":")[0] for row in found))
    figure, both = panels("irmasim", 1, 2, (8, 3))
    for panel, column in zip(both, MEASURES[:2], strict=True):
        for offset, model in enumerate(KINDS):
            heights = [found[f"{size}: {model}"][column]["ours"] for size in sizes]
            panel.bar(np.arange(len(sizes)) + 0.4 * offset, heights, 0.4, label=model)
        panel.set(title=column, xlabel="jobs", xticks=np.arange(len(sizes)) + 0.2)
        panel.set_xticklabels([size.split()[0] for size in sizes])
    both[0].legend(frameon=False)
    save(figure, name)
    cells: list[list[Cell]] = []
    below: list[list[Cell]] = []
    for size in sizes:
        for model in KINDS:
            of = [found[f"{size}: {model}"][column] for column in MEASURES]
            cells.append([size, model, *(row["ours"] for row in of), of[-1]["published"], of[0]["n"]])
        pair = [found[f"{size}: {BELOW}"][f"{which} %"] for which in ("makespan", "energy")]
        below.append([size, *(value for one in pair for value in (one["ours"], one["published"]))])
    table = aligned_table(["batch", "model", *MEASURES, "published W", "n"], cells, (None, None, 0, 1, 0, 0, 0))
    header = ["batch", "makespan: below by %", "published", "energy: below by %", "published "]
    return table + "\n\n" + aligned_table(header, below, (None, 1, 0, 1, 0))


def _figure_nine(found: ByRow) -> str:
    """Draw the energies of the subset, and return those of all policies."""
    figure, both = panels("irmasim", 1, 2, (9, 3))
    tables = []
    columns = [selection.name.lower() for selection in NodeSelection]
    for panel, model in zip(both, KINDS, strict=True):
        energies = [found[f"{model}: {name}"][ENERGY]["ours"] for name in SUBSET]
        panel.barh(SUBSET, energies)
        panel.set(title=f"{model}, kJ", xlim=(0.9 * min(energies), 1.01 * max(energies)))
        cells: list[list[Cell]] = []
        least = min(of[ENERGY]["ours"] for place, of in found.items() if ENERGY in of and model in place)
        for jobs in (selection.name.lower() for selection in JobSelection):
            above = (found[f"{model}: {jobs}-{nodes}"][ENERGY]["ours"] / least - 1 for nodes in columns)
            cells.append([jobs, *(100 * one for one in above)])
        tables.append(f"### {model}\n\n" + aligned_table(["jobs", *columns], cells, (None, *(2,) * len(columns))))
    both[1].set_yticklabels([])
    save(figure, "irmasim_figure9")
    apart = [
        [model, *(found[model][column][key] for column in (WORST, WORST_OF_SUBSET) for key in ("ours", "spread"))]
        for model in KINDS
    ]
    header = ["model", WORST, "spread", WORST_OF_SUBSET, "spread "]
    return "\n\n".join([*tables, aligned_table(header, apart, (None, 2, 2, 2, 2))])


def _convergence(folder: Path) -> str:
    """Draw what the usual agents named, and return what all end on, and when they begin to favour it."""
    cells: list[list[Cell]] = []
    plots = []
    for number, model in ((10, KINDS[1]), (11, KINDS[0])):
        name = f"irmasim-figure{number}"
        for path in sorted(folder.glob(f"{name}*.json")):
            label = path.stem.removeprefix(name).lstrip("-") or "usual"
            if label == "quick":
                continue
            found = by_row(read_rows(folder, path.stem))
            seeds = sorted(row for row in found if row.startswith("seed") and "," not in row)
            for seed in seeds:
                values = (found[seed][column]["ours"] for column in ENDS)
                cells.append([label, model, seed, *values, _named(found[seed])])
            if label == "usual":
                _plot_shares(found, seeds, f"irmasim_figure{number}")
                title = f"Share of the decisions in which each policy is named, {model}"
                plots.append(f"![{title}](irmasim_figure{number}.svg)")
    header = ["agent", "model", "seed", "energy", "drawn", "favoured from", "its share", "names at the end"]
    cells.sort(key=lambda row: (row[0] != "usual", str(row[0])))
    return "\n\n".join([aligned_table(header, cells, (None, None, None, 4, 4, 0, 2, None)), *plots])


def _named(columns: dict[str, Row]) -> str:
    """Return what the agent names when it always takes what it prefers."""
    shares = {column.removeprefix("named at the end: "): row["ours"] for column, row in columns.items()}
    known = {name: share for name, share in shares.items() if name in SUBSET}
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(known.items(), key=lambda item: -item[1]))


def _plot_shares(found: ByRow, seeds: list[str], name: str) -> None:
    figure, of_seeds = panels("irmasim", 1, len(seeds), (2.2 * len(seeds), 3.2), sharey=True)
    for panel, seed in zip(of_seeds, seeds, strict=True):
        for policy in SUBSET:
            points = found.get(f"{seed}, {policy}", {})
            episodes = [int(column.removeprefix("share at episode ")) for column in points]
            panel.plot(episodes, [row["ours"] for row in points.values()], label=policy)
        panel.set(title=seed, xlabel="episode", ylim=(0, 1))
    save(figure, name, legend_columns=3)


def _objectives() -> str:
    """Train for each objective, and look at other batches."""
    cells: list[list[Cell]] = []
    seconds = []
    for objective, options in OBJECTIVES.items():
        for seed in SEEDS:
            training = IrmasimTraining(objective=objective, **options)
            began = time.process_time()
            learner = training.learner(seed)
            for update in range(training.updates):
                learner.update(update / training.updates)
            seconds.append(time.process_time() - began)
            agent = Agent(learner.best, training.options())
            own = _over_best(training, agent, training.batch)
            others = np.array([_over_best(training, agent, batch) for batch in UNSEEN])
            cells.append([objective, seed, own[0], *others.mean(axis=0), others[:, 0].max()])
    header = ["objective", "seed", "own batch", "other batches", "policy of the own batch", "worst other batch"]
    times = f"A training takes {np.mean(seconds):.1f} s of CPU time on average, {max(seconds):.1f} s at most."
    return aligned_table(header, cells, (None, 0, 4, 4, 4, 4)) + "\n\n" + times


def _over_best(training: IrmasimTraining, agent: Agent, batch: int) -> tuple[float, float]:
    """Return what an agent, and the policy that is best on its own batch, come to over the best policy of a batch."""
    machine = PAPERS[HETEROGENEOUS]
    options, execution = training.options(), training.execution()
    own, jobs = (jobsets_of("", training.jobs, number)[0] for number in (training.batch, batch))
    alone = -policy_rewards([own, jobs], machine, execution, options)
    made = agent.play(machine, jobs, execution).schedule
    values = {"makespan": made.makespan_s, "energy": made.energy_j, "energy_delay": made.energy_delay_js}
    best = float(alone[1].min())
    return values[training.objective] / best, float(alone[1][alone[0].argmin()]) / best


def _times() -> dict[str, Any]:
    """Time steps of the environment, side by side, and a simulation of the same jobs."""
    machine, jobs = PAPERS[HETEROGENEOUS], jobsets_of("", 300, 0)[0]
    rng, cells = np.random.default_rng(0), list[list[Cell]]()
    for level in LEVELS:
        episodes = Episodes([jobs], machine, SIDE_BY_SIDE, options=Options(level))
        episodes.begin(np.zeros(SIDE_BY_SIDE, dtype=np.int64))
        episodes.follow(np.zeros(SIDE_BY_SIDE, dtype=np.int64))
        actions = rng.integers(0, len(episodes.options.actions), (TIMED_STEPS, SIDE_BY_SIDE))
        began = time.process_time()
        for chosen in actions:
            episodes.observe()
            episodes.step(chosen)
        cells.append([level, episodes.size, TIMED_STEPS * SIDE_BY_SIDE / (time.process_time() - began)])
    began = time.process_time()
    for _ in range(20):
        simulate(jobs, machine, "low_mem_bw-low_power")
    return {
        "jobs_per_second": 20 * len(jobs) / (time.process_time() - began),
        "decisions": aligned_table(["level", "values", "decisions/s"], cells, (None, 0, 0)),
    }


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    folder = parser.parse_args().rows
    one, seven, eight, nine = (read_rows(folder, f"irmasim-figure{number}") for number in (1, 7, 8, 9))
    places = {
        "measured": measured_at([*one, *seven, *eight, *nine]),
        "batches": BATCHES,
        "figure1": _figure_one(by_row(one)),
        "figure7": _batches(seven, "irmasim_figure7"),
        "figure8": _batches(eight, "irmasim_figure8"),
        "figure9": _figure_nine(by_row(nine)),
        "convergence": _convergence(folder),
        "objectives": _objectives(),
    }
    write_template(__file__, "irmasim", {**places, **_times()})


if __name__ == "__main__":
    main()
