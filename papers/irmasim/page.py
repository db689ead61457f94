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
from allocopt.simulator.multicore.state import ExecutionKind
from allocopt.simulator.simulate import simulate
from learned.irmasim.agents import Agent
from learned.irmasim.environment import HETEROGENEOUS, PAPERS, SUBSET, jobsets_of, policy_rewards
from learned.irmasim.training import IrmasimTraining
from papers.irmasim.convergence import LAST_ENERGY, OVER_BEST, SHARE_AT_END, UNTIL
from papers.irmasim.figures import BELOW, CLASS_A, ENERGY, MEASURES, NODES, WORST, WORST_OF_SUBSET
from papers.pages import Row, by_place, claims_section, measured_at, pyplot, read_rows, saved, write_page

Found = dict[tuple[str, str], Row]

INTENT = (
    "The paper prints no size of its networks; ours have one hidden layer of 32. The figures of the IRMaSim paper by "
    "`allocopt reproduce`, and agents that select policies. Machines are the paper's (Table III), jobs batches of its "
    "benchmarks (Table IV). The paper prints its results as pictures; what stands under *published* is in its text. "
    "Where it compares with a real cluster, that cannot be done again; how near the simulator comes to a measured run "
    "stands in [multicore.md](multicore.md)."
)
MODELS = tuple(str(kind) for kind in ExecutionKind)
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


ONE = (
    "Ten ep.A, then ten lu.A on two nodes of four cores, at 3.4 and 1.7 GHz, first come first served. The paper names "
    "neither clocks nor class A's instructions; the latter are those of class C by the sizes of the problems. In the "
    "paper's text lu.A takes up to four times as long as alone, more on the fast node; with the constants of Table III "
    "and the volumes of Table IV it is about twice, more on the fast node."
)


def figure_one(rows: list[Row]) -> list[str]:
    """Show slowdowns, and when and where the jobs ran."""
    found = by_place(rows)
    cells: list[list[Cell]] = []
    for model in MODELS:
        for benchmark in CLASS_A:
            for node in NODES.values():
                place = f"{model}: {benchmark}.A, {node} node"
                mean, most = (found[place, f"{which} times as long as alone"] for which in ("mean", "most"))
                cells.append([model, f"{benchmark}.A", node, mean["ours"], most["ours"], most["published"], mean["n"]])
    header = ["model", "benchmark", "node", "mean times as long", "most", "published", "n"]
    table = aligned_table(header, cells, (None, None, None, 2, 2, 1, 0))
    return ["## Figure 1: a fast and a slow node", ONE, table, gantt(found)]


def gantt(found: Found) -> str:
    """Draw when each job ran, by node."""
    plt = pyplot("irmasim")
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharex=True)
    for panel, model in zip(panels, MODELS, strict=True):
        places = [row for row, column in found if row.startswith(f"{model}: job") and column == "start s"]
        for line, place in enumerate(sorted(places, key=lambda row: row.split(", ")[1])):
            start, end = (found[place, f"{which} s"]["ours"] for which in ("start", "end"))
            colour = "tab:blue" if " ep" in place else "tab:orange"
            panel.barh(line, end - start, left=start, color=colour, edgecolor="white")
        at = len(places) - sum("slow" in place for place in places)
        panel.axhline(at - 0.5, color="black", linewidth=0.5)
        panel.set(title=model, xlabel="s", yticks=[at / 2, (at + len(places)) / 2], yticklabels=["fast", "slow"])
    return saved(figure, "irmasim_figure1", "Jobs by node; blue ep.A, orange lu.A")


BATCHES = (
    "Batches of jobs that come within two minutes and start in the order of their submission. Mean over seeds. "
    "*Published*: by how much the paper's baseline is below the *real* cluster (its IRMaSim: 3 % in makespan and 10 % "
    "in energy on the homogeneous cluster, 5 % on the other), and the power that it gives for IRMaSim and Batsim; the "
    "real cluster took 400 W. The paper does not say how many jobs a batch has, or by which policy they start."
)


def figures_of_batches(rows: list[Row], title: str, name: str) -> list[str]:
    """Show makespan, energy and power by size of batch."""
    found = by_place(rows)
    sizes = list(dict.fromkeys(row["row"].split(":")[0] for row in rows))
    cells: list[list[Cell]] = []
    for size in sizes:
        for model in MODELS:
            place = f"{size}: {model}"
            cells.append([size, model, *(found[place, column]["ours"] for column in MEASURES)])
            cells[-1] += [found[place, MEASURES[-1]]["published"], found[place, MEASURES[0]]["n"]]
    table = aligned_table(["batch", "model", *MEASURES, "published W", "n"], cells, (None, None, 0, 1, 0, 0, 0))
    below: list[list[Cell]] = []
    for size in sizes:
        pair = [found[f"{size}: {BELOW}", f"{which} %"] for which in ("makespan", "energy")]
        below.append([size, *(value for one in pair for value in (one["ours"], one["published"]))])
    header = ["batch", "makespan: below by %", "published", "energy: below by %", "published "]
    return [
        f"## {title}",
        BATCHES,
        table,
        aligned_table(header, below, (None, 1, 0, 1, 0)),
        batches_plot(found, sizes, name),
    ]


def batches_plot(found: Found, sizes: list[str], name: str) -> str:
    """Draw makespans and energies."""
    plt = pyplot("irmasim")
    figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for panel, column in zip(panels, MEASURES[:2], strict=True):
        for offset, model in enumerate(MODELS):
            heights = [found[f"{size}: {model}", column]["ours"] for size in sizes]
            panel.bar(np.arange(len(sizes)) + 0.4 * offset, heights, 0.4, label=model)
        panel.set(title=column, xlabel="jobs", xticks=np.arange(len(sizes)) + 0.2)
        panel.set_xticklabels([size.split()[0] for size in sizes])
    panels[0].legend(frameon=False)
    return saved(figure, name, "Makespan and energy by batch")


NINE = (
    "Energy of a batch of 100 jobs on the heterogeneous cluster under each policy, per cent above the least, mean over "
    "batches. Serial jobs that ask for no memory make `smallest` and `low_mem` the same as `first`, and `high_mem` the "
    "same as `high_gflops` (the fastest nodes have the lowest numbers)."
)


def figure_nine(rows: list[Row]) -> list[str]:
    """Show energies by policy."""
    found = by_place(rows)
    sections = ["## Figure 9: energy by policy", NINE]
    columns = [selection.name.lower() for selection in NodeSelection]
    for model in MODELS:
        cells: list[list[Cell]] = []
        least = min(row["ours"] for (place, column), row in found.items() if column == ENERGY and model in place)
        for jobs in JobSelection:
            names = [f"{model}: {jobs.name.lower()}-{column}" for column in columns]
            cells.append([jobs.name.lower(), *(100 * (found[name, ENERGY]["ours"] / least - 1) for name in names)])
        sections.append(f"### {model}\n\n" + aligned_table(["jobs", *columns], cells, (None, *(2,) * len(columns))))
    apart: list[list[Cell]] = [
        [model, *(found[model, column][key] for column in (WORST, WORST_OF_SUBSET) for key in ("ours", "spread"))]
        for model in MODELS
    ]
    header = ["model", WORST, "spread", WORST_OF_SUBSET, "spread "]
    return [*sections, aligned_table(header, apart, (None, 2, 2, 2, 2)), energies_plot(found)]


def energies_plot(found: Found) -> str:
    """Draw the energies of the subset."""
    plt = pyplot("irmasim")
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for panel, model in zip(panels, MODELS, strict=True):
        energies = [found[f"{model}: {name}", ENERGY]["ours"] for name in SUBSET]
        panel.barh(SUBSET, energies)
        panel.set(title=f"{model}, kJ", xlim=(0.9 * min(energies), 1.01 * max(energies)))
    panels[1].set_yticklabels([])
    return saved(figure, "irmasim_figure9", "Energy of the policies among which agents choose")


CONVERGENCE = (
    "Agents that choose among six policies learn to save energy on one batch of 100 jobs on the heterogeneous cluster, "
    "4,800 episodes, level `minimal`. *Energy*: of an episode in which the trained agent always takes what it prefers, "
    "and, drawn, of the last episodes of the training, both over the best policy alone. *Favoured from*: the first "
    "episode from which on one policy is named in more than half of all decisions, to the end of the training; a dash "
    "where that never happened. *Usual*: REINFORCE with the defaults; *entropy-0*: without entropy; *a2c*: "
    "actor-critic with the defaults."
)


def figures_of_convergence(folder: Path) -> list[str]:
    """Show what agents end on, and when they begin to favour it."""
    cells: list[list[Cell]] = []
    plots = []
    for number, model in ((10, MODELS[1]), (11, MODELS[0])):
        name = f"irmasim-figure{number}"
        for path in sorted(folder.glob(f"{name}*.json")):
            label = path.stem.removeprefix(name).lstrip("-") or "usual"
            if label == "quick":
                continue
            rows = read_rows(folder, path.stem)
            found = by_place(rows)
            seeds = sorted({row["row"] for row in rows if row["row"].startswith("seed") and "," not in row["row"]})
            for seed in seeds:
                values = (found[seed, column]["ours"] for column in (OVER_BEST, LAST_ENERGY, UNTIL, SHARE_AT_END))
                cells.append([label, model, seed, *values, named(rows, seed)])
            if label == "usual":
                plots.append(shares_plot(rows, seeds, f"irmasim_figure{number}", model))
    header = ["agent", "model", "seed", "energy", "drawn", "favoured from", "its share", "names at the end"]
    cells.sort(key=lambda row: (row[0] != "usual", str(row[0])))
    table = aligned_table(header, cells, (None, None, None, 4, 4, 0, 2, None))
    return ["## Figures 10 and 11: what agents come to choose", CONVERGENCE, table, *plots]


def named(rows: list[Row], seed: str) -> str:
    """Say what the agent names when it always takes what it prefers."""
    marker = "named at the end: "
    shares = {row["column"].removeprefix(marker): row["ours"] for row in rows if row["row"] == seed}
    known = {name: share for name, share in shares.items() if name in SUBSET}
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(known.items(), key=lambda item: -item[1]))


def shares_plot(rows: list[Row], seeds: list[str], name: str, model: str) -> str:
    """Draw how often each policy was named, a panel for each seed."""
    plt = pyplot("irmasim")
    figure, panels = plt.subplots(1, len(seeds), figsize=(2.2 * len(seeds), 3.2), layout="constrained", sharey=True)
    marker = "share at episode "
    for panel, seed in zip(np.atleast_1d(panels), seeds, strict=True):
        for policy in SUBSET:
            of = [row for row in rows if row["row"] == f"{seed}, {policy}"]
            panel.plot(
                [int(row["column"].removeprefix(marker)) for row in of], [row["ours"] for row in of], label=policy
            )
        panel.set(title=seed, xlabel="episode", ylim=(0, 1))
    handles = np.atleast_1d(panels)[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return saved(figure, name, f"Share of the decisions in which each policy is named, {model}")


def trained(objective: str, seed: int) -> tuple[IrmasimTraining, Agent, float]:
    """Train an agent; return how many seconds that took, too."""
    training = IrmasimTraining(objective=objective, **OBJECTIVES[objective])
    began = time.process_time()
    learner = training.learner(seed)
    for update in range(training.updates):
        learner.update(update / training.updates)
    return training, Agent(learner.best, training.options()), time.process_time() - began


OTHERS = (
    "Agents for each objective, the best actor of each training; but for energy, 38,400 episodes, 64 side by side, and "
    "entropy 2e-4 for makespan and 5e-4 for energy-delay: what an episode comes to over the best policy alone, on the "
    "batch that it was trained on, and on 20 batches that it was not; beside it the policy that is best on the "
    "training's batch, and the best policy of each batch, which nobody knows beforehand, is 1."
)


def objectives_section() -> list[str]:
    """Train for each objective, and look at other batches."""
    cells: list[list[Cell]] = []
    seconds = []
    for objective in OBJECTIVES:
        for seed in SEEDS:
            training, agent, took = trained(objective, seed)
            seconds.append(took)
            own = over_best(training, agent, training.batch)
            others = np.array([over_best(training, agent, batch) for batch in UNSEEN])
            cells.append([objective, seed, own[0], *others.mean(axis=0), others[:, 0].max()])
    header = ["objective", "seed", "own batch", "other batches", "policy of the own batch", "worst other batch"]
    table = aligned_table(header, cells, (None, 0, 4, 4, 4, 4))
    times = f"A training takes {np.mean(seconds):.1f} s of CPU time on average, {max(seconds):.1f} s at most."
    return ["## Other objectives, and jobs that were not trained on", OTHERS, table, times]


def over_best(training: IrmasimTraining, agent: Agent, batch: int) -> tuple[float, float]:
    """Return what an agent, and the policy that is best on its own batch, come to over the best policy of a batch."""
    machine = PAPERS[HETEROGENEOUS]
    options, execution = training.options(), training.execution()
    own, jobs = (jobsets_of("", training.jobs, number)[0] for number in (training.batch, batch))
    alone = -policy_rewards([own, jobs], machine, execution, options)
    made = agent.play(machine, jobs, execution).schedule
    values = {"makespan": made.makespan_s, "energy": made.energy_j, "energy_delay": made.energy_delay_js}
    best = float(alone[1].min())
    return values[training.objective] / best, float(alone[1][alone[0].argmin()]) / best


def times_section() -> list[str]:
    """Time steps of the environment, side by side."""
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
    alone = 20 * len(jobs) / (time.process_time() - began)
    text = (
        f"64 episodes of 300 jobs on 60 cores side by side, one core, all 37 policies at random. A simulation of the "
        f"same jobs under one policy does {alone:,.0f} jobs/s."
    )
    return ["## Times", text, aligned_table(["level", "values", "decisions/s"], cells, (None, 0, 0))]


def sections(folder: Path) -> list[str]:
    """Return the sections of the page."""
    one, seven, eight, nine = (read_rows(folder, f"irmasim-figure{number}") for number in (1, 7, 8, 9))
    return [
        measured_at([*one, *seven, *eight, *nine]),
        claims_section("irmasim"),
        *figure_one(one),
        *figures_of_batches(seven, "Figure 7: homogeneous cluster", "irmasim_figure7"),
        *figures_of_batches(eight, "Figure 8: heterogeneous cluster", "irmasim_figure8"),
        *figure_nine(nine),
        *figures_of_convergence(folder),
        *objectives_section(),
        *times_section(),
    ]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("reproduced"))
    write_page("irmasim", "IRMaSim's figures and agents", INTENT, sections(parser.parse_args().rows))


if __name__ == "__main__":
    main()
