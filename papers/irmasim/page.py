"""IRMaSim's agents: a page with plots of the results of ``allocopt reproduce``, and with further measurements.

The program also trains agents for other objectives, evaluates agents on unseen jobs, and measures times.

Run ``allocopt reproduce irmasim-figure1`` and ``irmasim-figure7`` to ``irmasim-figure11`` first. ``--rows`` is the
folder with the result files. Results of Figures 10 and 11 with another agent or entropy, written by ``--out`` to
``irmasim-figure10-LABEL.json``, become further rows of the table. Needs the extras train and plot.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.envs.policy_selection.task import LEVELS, PolicySelectionEpisodes, PolicySelectionOptions
from allocopt.learned.irmasim.training import HETEROGENEOUS, PAPERS, SUBSET, Agent, IrmasimTraining, policy_rewards
from allocopt.report.plot import Axis, Colours, Panel
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.simulate import simulate
from papers.irmasim.figures import BELOW, BY_NODES, ENERGY, KINDS, LIGHTER, MEASURES, OVER_BEST, UNTIL
from papers.pages import (
    ByRow,
    Row,
    Selection,
    by_row,
    page_parser,
    read_rows,
    selected_tables,
    text_table,
    write_figure,
    write_lines,
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
"""Seeds of batches that no training uses."""
SIDE_BY_SIDE, TIMED_STEPS = 64, 400
_BELOW = {"makespan %": 1, "energy %": 1}
SELECTIONS = {
    "figure7": Selection("irmasim-figure7", f"([15]00 jobs): {BELOW}", _BELOW),
    "figure8": Selection("irmasim-figure8", f"([15]00 jobs): {BELOW}", _BELOW),
}


def _figure_one(found: ByRow) -> None:
    """Draw the time in which each job ran, by node."""
    longest = max(columns["end s"]["ours"] for columns in found.values() if "end s" in columns)

    def draw(colours: Colours) -> list[Panel]:
        panels = []
        for model in KINDS:
            of_jobs = (row for row in found if row.startswith(f"{model}: job"))
            places = sorted(of_jobs, key=lambda row: row.split(", ")[1])
            starts, ends = ([found[place][f"{which} s"]["ours"] for place in places] for which in ("start", "end"))
            spans = enumerate(zip(starts, ends, strict=True))
            boxes = [[start, line - 0.4, end - start, 0.8] for line, (start, end) in spans]
            at, n = len(places) - sum("slow" in place for place in places), len(places)
            nodes = Axis((-0.5, n - 0.5), [(at / 2 - 0.5, "fast"), ((at + n) / 2 - 0.5, "slow")], has_grid=False)
            panel = Panel(colours, Axis.linear(np.array([0.0, longest]), "s"), nodes, 200, model)
            panel.boxes(np.array(boxes), ["c1" if " ep" in place else "c2" for place in places])
            panel.rules([at - 0.5], "ink")
            panels.append(panel)
        return panels

    write_figure("irmasim_figure1", "Jobs by node", draw)


def _batches(rows: list[Row], name: str) -> None:
    """Draw makespans and energies by size of batch."""
    found = by_row(rows)
    sizes = list(dict.fromkeys(row.split(":")[0] for row in found))
    jobs = [float(size.split()[0]) for size in sizes]
    parts = {
        column: {model: (jobs, [found[f"{size}: {model}"][column]["ours"] for size in sizes]) for model in KINDS}
        for column in MEASURES[:2]
    }
    write_lines(name, "Makespan and energy by batch", parts, "jobs")


def _figure_nine(found: ByRow) -> str:
    """Draw the energies of the subset, and return the energies of all policies above the least, in per cent."""

    def draw(colours: Colours) -> list[Panel]:
        panels = []
        for model in KINDS:
            energies = [found[f"{model}: {name}"][ENERGY]["ours"] for name in SUBSET]
            low = 0.9 * min(energies)
            policies = Axis((-0.5, len(SUBSET) - 0.5), list(enumerate(SUBSET)), has_grid=False)
            above = Axis.linear(np.array([low, *energies]), is_tight=True)
            panel = Panel(colours, above, policies, 200, f"{model}, kJ")
            boxes = [[low, place - 0.4, energy - low, 0.8] for place, energy in enumerate(energies)]
            panel.boxes(np.array(boxes), ["c1"] * len(boxes))
            panels.append(panel)
        return panels

    write_figure("irmasim_figure9", "Energy of the policies among which agents choose", draw)
    of_policies = {
        row: of[ENERGY]["ours"] for row, of in found.items() if ENERGY in of and row.startswith(f"{KINDS[0]}: ")
    }
    least = min(of_policies.values())
    cells: list[list[Cell]] = []
    # For serial jobs that ask for no memory, smallest and low_mem are the same as first.
    for jobs in ("random", "first", "shortest", "low_mem_bw"):
        energies = [of_policies[f"{KINDS[0]}: {jobs}-{nodes}"] for nodes in BY_NODES]
        cells.append([jobs, *(100 * (energy / least - 1) for energy in energies)])
    return aligned_table(["jobs", *BY_NODES], cells, (None, *(2,) * len(BY_NODES)))


def _lighter(found: ByRow) -> str:
    """Return the energies of `BY_NODES` above the least, in per cent, by the memory volume of jobs."""
    models = {model: model.split(", ")[1] for model in LIGHTER} | {KINDS[0]: "all of the memory volume"}
    cells: list[list[Cell]] = []
    for model, label in models.items():
        energies = [found[f"{model}: first-{nodes}"][ENERGY]["ours"] for nodes in BY_NODES]
        cells.append([label, *(100 * (energy / min(energies) - 1) for energy in energies)])
    return aligned_table(["jobs move", *BY_NODES], cells, (None, *(2,) * len(BY_NODES)))


def _convergence(folder: Path) -> str:
    """Draw the choices of the usual agents; return the final results of all, and when they begin to favour a policy."""
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
    """Return the final results of the trainings of several seeds."""
    energies = [of[OVER_BEST]["ours"] for of in seeds]
    firsts = [of[UNTIL]["ours"] for of in seeds if of[UNTIL]["ours"] is not None]
    # The policy that an agent chooses most often when it always takes the one it prefers.
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
    marker = "share at episode "
    parts = {
        seed: {
            policy: ([float(column.removeprefix(marker)) for column in of], [row["ours"] for row in of.values()])
            for policy in SUBSET
            if (of := found.get(f"{seed}, {policy}"))
        }
        for seed in seeds
    }
    write_lines(name, "Share of the decisions in which each policy is named", parts, "episode")


def _objectives() -> str:
    """Train for each objective, and evaluate the agents on other batches."""
    cells: list[list[Cell]] = []
    seconds = []
    for objective, options in OBJECTIVES.items():
        for seed in SEEDS:
            training = IrmasimTraining(objective=objective, **options)
            began = time.process_time()
            learner, _ = training.trained(seed)
            seconds.append(time.process_time() - began)
            agent = Agent(learner.best, training.options())
            own = _over_best(training, agent, training.batch)
            others = np.array([_over_best(training, agent, batch) for batch in UNSEEN])
            cells.append([objective, seed, own[0], *others.mean(axis=0), others[:, 0].max()])
    header = ["objective", "seed", "own batch", "other batches", "policy of the own batch", "worst other batch"]
    times = f"A training takes {np.mean(seconds):.1f} s of CPU time on average, {max(seconds):.1f} s at most."
    return aligned_table(header, cells, (None, 0, 4, 4, 4, 4)) + "\n\n" + times


def _over_best(training: IrmasimTraining, agent: Agent, batch: int) -> tuple[float, float]:
    """Return the objective of an agent on a batch, and that of a policy, over that of the best policy of the batch.

    The policy is the one that is best on the batch of the training.
    """
    machine = PAPERS[HETEROGENEOUS]
    options, execution = training.options(), training.execution()
    own, jobs = (IrmasimTraining(jobs=training.jobs, batch=one).jobsets()[0] for one in (training.batch, batch))
    alone = -policy_rewards([own, jobs], machine, execution, options)
    made = agent.play(machine, jobs, execution).schedule
    values = {"makespan": made.makespan_s, "energy": made.energy_j, "energy_delay": made.energy_delay_js}
    best = float(alone[1].min())
    return values[training.objective] / best, float(alone[1][alone[0].argmin()]) / best


def _times() -> dict[str, Any]:
    """Time steps of the environment, side by side, and a simulation of the same jobs."""
    machine, jobs = PAPERS[HETEROGENEOUS], IrmasimTraining(jobs=300, batch=0).jobsets()[0]
    rng, rates = np.random.default_rng(0), list[str]()
    for level in LEVELS:
        episodes = PolicySelectionEpisodes([jobs], machine, SIDE_BY_SIDE, options=PolicySelectionOptions(level))
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
    folder = page_parser(__doc__, rows=True).parse_args().rows
    rows = {number: read_rows(folder, f"irmasim-figure{number}") for number in (1, 7, 8, 9)}
    _figure_one(by_row(rows[1]))
    _batches(rows[7], "irmasim_figure7")
    _batches(rows[8], "irmasim_figure8")
    places = {
        **selected_tables(folder, SELECTIONS),
        "policies": _figure_nine(by_row(rows[9])),
        "lighter": _lighter(by_row(rows[9])),
        "convergence": _convergence(folder),
        "objectives": _objectives(),
    }
    write_template(__file__, "irmasim", {**places, **_times()})


if __name__ == "__main__":
    main()
