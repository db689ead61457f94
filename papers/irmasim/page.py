"""IRMaSim's agents: a page with plots of what ``allocopt reproduce`` wrote, other objectives, unseen jobs and times.

Run ``allocopt reproduce irmasim-figure1`` and ``irmasim-figure7`` to ``irmasim-figure11`` first. ``--rows`` is the
folder with their files. Those of Figures 10 and 11 under another name ``irmasim-figure10-LABEL.json``, by
``--out``, with another agent or entropy, come as further rows of the table. Needs the extras train and plot.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.envs.policy_selection.observation import LEVELS
from allocopt.envs.policy_selection.task import Episodes, Options
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.multicore.policies import NodeSelection
from allocopt.simulator.simulate import simulate
from learned.irmasim.agents import Agent
from learned.irmasim.training import HETEROGENEOUS, PAPERS, SUBSET, IrmasimTraining, jobsets_of, policy_rewards
from papers.irmasim.figures import BELOW, ENERGY, KINDS, MEASURES, OVER_BEST, UNTIL
from papers.pages import (
    ByRow,
    Row,
    Selection,
    by_row,
    panels,
    read_rows,
    save,
    selected_tables,
    text_table,
    write_template,
)

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
_BELOW = {"makespan %": 1, "energy %": 1}
SELECTIONS = {
    "figure7": Selection("irmasim-figure7", f"([15]00 jobs): {BELOW}", _BELOW),
    "figure8": Selection("irmasim-figure8", f"([15]00 jobs): {BELOW}", _BELOW),
}


def _figure_one(found: ByRow) -> None:
    """Draw when each job ran, by node."""
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


def _batches(rows: list[Row], name: str) -> None:
    """Draw makespans and energies by size of batch."""
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


def _figure_nine(found: ByRow) -> str:
    """Draw the energies of the subset, and return by how much those of all policies are above the least."""
    figure, both = panels("irmasim", 1, 2, (9, 3))
    for panel, model in zip(both, KINDS, strict=True):
        energies = [found[f"{model}: {name}"][ENERGY]["ours"] for name in SUBSET]
        panel.barh(SUBSET, energies)
        panel.set(title=f"{model}, kJ", xlim=(0.9 * min(energies), 1.01 * max(energies)))
    both[1].set_yticklabels([])
    save(figure, "irmasim_figure9")
    of_policies = {row: of[ENERGY]["ours"] for row, of in found.items() if ENERGY in of and row.startswith(KINDS[0])}
    least = min(of_policies.values())
    columns = [selection.name.lower() for selection in NodeSelection if selection is not NodeSelection.HIGH_MEM]
    cells: list[list[Cell]] = []
    # Serial jobs that ask for no memory make smallest and low_mem the same as first.
    for jobs in ("random", "first", "shortest", "low_mem_bw"):
        energies = [of_policies[f"{KINDS[0]}: {jobs}-{nodes}"] for nodes in columns]
        cells.append([jobs, *(100 * (energy / least - 1) for energy in energies)])
    return aligned_table(["jobs", *columns], cells, (None, *(2,) * len(columns)))


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
            cells.append([label, model, *_ends([found[seed] for seed in seeds])])
            if label == "usual":
                _plot_shares(found, seeds, f"irmasim_figure{number}")
                title = f"Share of the decisions in which each policy is named, {model}"
                plots.append(f"![{title}](irmasim_figure{number}.svg)")
    header = ["agent", "model", "energy", "favoured", "from episode", "most named at the end, in"]
    cells.sort(key=lambda row: (row[0] != "usual", str(row[0])))
    return "\n\n".join([text_table(header, cells), *plots])


def _ends(seeds: list[dict[str, Row]]) -> list[Cell]:
    """Return what the trainings of several seeds end on."""
    energies = [of[OVER_BEST]["ours"] for of in seeds]
    firsts = [of[UNTIL]["ours"] for of in seeds if of[UNTIL]["ours"] is not None]
    # The policy that an agent names most when it always takes what it prefers.
    named = Counter(max(SUBSET, key=lambda policy: _share_at_the_end(of, policy)) for of in seeds)
    ((policy, count),) = named.most_common(1)
    return [
        f"{min(energies):.4f} .. {max(energies):.4f}",
        f"{len(firsts)} of {len(seeds)}",
        f"{min(firsts):,.0f} .. {max(firsts):,.0f}" if firsts else None,
        f"{policy}, {count} of {len(seeds)}",
    ]


def _share_at_the_end(columns: dict[str, Row], policy: str) -> float:
    row = columns.get(f"named at the end: {policy}")
    return 0.0 if row is None else float(row["ours"])


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
    rng, rates = np.random.default_rng(0), list[str]()
    for level in LEVELS:
        episodes = Episodes([jobs], machine, SIDE_BY_SIDE, options=Options(level))
        episodes.begin(np.zeros(SIDE_BY_SIDE, dtype=np.int64))
        episodes.follow(np.zeros(SIDE_BY_SIDE, dtype=np.int64))
        actions = rng.integers(0, len(episodes.options.actions), (TIMED_STEPS, SIDE_BY_SIDE))
        began = time.process_time()
        for chosen in actions:
            episodes.observe()
            episodes.step(chosen)
        rates.append(f"{TIMED_STEPS * SIDE_BY_SIDE / (time.process_time() - began):,.0f} ({level})")
    began = time.process_time()
    for _ in range(20):
        simulate(jobs, machine, "low_mem_bw-low_power")
    return {
        "jobs_per_second": 20 * len(jobs) / (time.process_time() - began),
        "decisions": ", ".join(rates),
    }


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    folder = parser.parse_args().rows
    rows = {number: read_rows(folder, f"irmasim-figure{number}") for number in (1, 7, 8, 9)}
    _figure_one(by_row(rows[1]))
    _batches(rows[7], "irmasim_figure7")
    _batches(rows[8], "irmasim_figure8")
    places = {
        **selected_tables(folder, SELECTIONS),
        "policies": _figure_nine(by_row(rows[9])),
        "convergence": _convergence(folder),
        "objectives": _objectives(),
    }
    write_template(__file__, "irmasim", {**places, **_times()})


if __name__ == "__main__":
    main()
