"""The multicore simulator: the measured run, Figures 3 and 9 of IRMaSim, and speed on 240 cores.

Needs the folder with the data (``--data``), which is not part of the project, for the measured run, and the extra
``plot``. Takes less than a minute.
"""

import csv
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from allocopt.cluster.irmasim import CONTENTION, irmasim_testbed
from allocopt.cluster.multicore import Cluster, Machine
from allocopt.cluster.platform_files import read_machine
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.multicore.contention import speed_factor
from allocopt.simulator.multicore.policies import ACTIONS, Action
from allocopt.simulator.multicore.simulation import MulticoreSimulation, PlacedJobs
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TaskWorkload, npb_batch, read_irmasim
from papers.pages import page_parser, write_lines, write_page

ENERGY_J, MAKESPAN_S = 9_514.0, 490.487
"""Measured."""
SPLIT_S = 295.0
"""A time at which both nodes were idle."""
STALLED = 0.5
BATCHES, BATCH = range(5), 300
JOBS, NODES = 10_000, 60
SECONDS = 1.0


def two_nodes(stalled: float) -> Machine:
    """Return the nodes of the measured run with the constants of Table III."""
    fast, slow = irmasim_testbed({3.4: 1, 1.7: 1}, stalled).nodes()
    return Machine("measured", (Cluster("labatc", (replace(fast, name="n1112"), replace(slow, name="n1113"))),))


def part(jobs: TaskWorkload, chosen: np.ndarray) -> TaskWorkload:
    kept = np.flatnonzero(chosen)
    columns = {
        field.name: getattr(jobs, field.name)[kept]
        for field in fields(jobs)
        if isinstance(getattr(jobs, field.name), np.ndarray)
    }
    return replace(jobs, names=tuple(jobs.names[row] for row in kept), applications=(), **columns)


def against_the_measured_run(folder: Path) -> str:
    """Return a table of models against the measured run."""
    example = folder / "examples" / "cal" / "job_4_cal_str_19314_log2_v1"
    jobs = read_irmasim(example / "workload.json")
    known = PlacedJobs.read(folder / "derived_measured_jobs.csv", jobs.names)
    given = read_machine(example / "platform.json")
    rows: list[list[Cell]] = []
    for name, machine, execution in (
        ("baseline", two_nodes(1.0), Execution(ExecutionKind.BASELINE)),
        ("Table III", two_nodes(1.0), Execution()),
        ("Table III, stalled 0.75", two_nodes(0.75), Execution()),
        ("Table III, stalled 0.5", two_nodes(STALLED), Execution()),
        ("example", given, Execution()),
        ("example, sharing 0.7", given, Execution(sharing=0.7)),
    ):
        made = known.replay(machine, jobs, execution)
        took = np.array([known.duration_s[job] for job in made.jobs.names])
        errors = 100 * np.abs((made.end - made.start) / took - 1)
        own = simulate(jobs, machine, "shortest-high_gflops", execution=execution)
        deviations = (made.energy_j / ENERGY_J, own.makespan_s / MAKESPAN_S, own.energy_j / ENERGY_J)
        rows.append([name, float(errors.mean()), float(errors.max()), *(100 * (share - 1) for share in deviations)])
    header = ("constants", "durations %", "at most %", "energy %", "own makespan %", "own energy %")
    return aligned_table(header, rows, (None, 1, 1, 1, 1, 1)) + "\n\n" + halves(folder, jobs, known)


def halves(folder: Path, jobs: TaskWorkload, known: PlacedJobs) -> str:
    """Fit the share of stalled cores to the first part of the run, and return its prediction of the second."""
    starts = np.array([known.start_s[name] for name in jobs.names])
    with (folder / "derived_measured_cumulative_energy.csv").open(encoding="utf-8") as lines:
        rows = [(float(row["t_s"]), float(row["cumulative_energy_J"])) for row in csv.DictReader(lines)]
    at_split = float(np.interp(SPLIT_S, *np.array(rows).T))
    first, second = part(jobs, starts < SPLIT_S), part(jobs, starts >= SPLIT_S)

    def energy(of: TaskWorkload, stalled: float) -> float:
        return known.replay(two_nodes(stalled), of).energy_j

    most, least = energy(first, 1.0), energy(first, 0.0)
    fitted = (at_split - least) / (most - least)
    predicted = energy(second, fitted)
    measured = ENERGY_J - at_split
    return (
        f"Fitted to the energy of the first {SPLIT_S:.0f} s alone, `stalled` is {fitted:.2f}, and the energy of the "
        f"rest of the run comes out {100 * (predicted / measured - 1):+.1f} % off the measured one; with 1, the model "
        f"as printed, {100 * (energy(second, 1.0) / measured - 1):+.1f} %."
    )


def by_policy() -> str:
    """Return energies of all policies on the heterogeneous cluster; Figure 9 shows some of them."""
    machine = irmasim_testbed()
    batches = [npb_batch(BATCH, np.random.default_rng(seed)) for seed in BATCHES]
    energies = {
        kind: np.array(
            [
                [simulate(jobs, machine, action, execution=Execution(kind)).energy_j / 1e6 for action in ACTIONS[:-1]]
                for jobs in batches
            ]
        )
        for kind in ExecutionKind
    }
    rows: list[list[Cell]] = []
    for kind, of in energies.items():
        means = of.mean(axis=0)
        least, most = int(means.argmin()), int(means.argmax())
        rows.append([str(kind), *(cell for one in (least, most) for cell in (ACTIONS[one].name, float(means[one])))])
    spans = {kind: 100 * (of.max(axis=1) / of.min(axis=1) - 1) for kind, of in energies.items()}
    text = ", ".join(f"{kind} {of.mean():.2f} % ({of.min():.2f} to {of.max():.2f})" for kind, of in spans.items())
    table = aligned_table(("model", "least", "MJ", "most", "MJ"), rows, (None, None, 4, None, 4))
    return f"{table}\n\nThe worst policy over the best one, mean and range over the batches: {text}."


def speed() -> str:
    machine = irmasim_testbed({3.4: NODES})
    rows: list[list[Cell]] = []
    for name, span in (("all at once", 120.0), ("over a day", 86_400.0)):
        jobs = npb_batch(JOBS, np.random.default_rng(0), span)
        for policy in ("first-high_gflops", "shortest-high_cores", "low_mem_bw-low_power", "random-random"):
            rows.append([name, policy, rate(MulticoreSimulation(machine, jobs), policy)])
    return aligned_table(("submitted", "policy", "jobs/s"), rows, (None, None, 0))


def rate(simulation: MulticoreSimulation, policy: str) -> float:
    """Return jobs per second of only the simulation, without the time to reset it."""
    action, runs, inside = Action.named(policy), 0, 0.0
    while inside < SECONDS:
        simulation.reset()
        started = time.perf_counter()
        simulation.run(*action.codes)
        inside += time.perf_counter() - started
        runs += 1
    return runs * JOBS / inside


def draw_surface() -> None:
    """Draw Figure 3: the speed factor of a task that runs with three others, as lines of equal own rates."""
    others = np.linspace(0, 120.0, 25)
    factors = {
        f"own rate {own} GB/s": (others, speed_factor(np.full(25, 1e3 * own), 1e3 * others, 3, CONTENTION))
        for own in range(0, 41, 10)
    }
    title = "Speed factor of a task beside three others"
    write_lines("multicore_figure3", title, {"speed factor": factors}, "rate of three others, GB/s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = page_parser(__doc__, data="irmasim/")
    chosen = parser.parse_args(arguments)
    draw_surface()
    write_page(
        "multicore",
        "Multicore machines: memory contention and energy",
        "With IRMaSim's model of memory contention the durations are within 4.8 % of a measured run on average, 12.1 "
        "% at most; without contention they are 33 % off. Energy is 19 % too high with the model as printed, and "
        "within 1 % if cores that wait for memory count half.",
        [
            "## The measured run",
            against_the_measured_run(chosen.data / "irmasim"),
            "## The slowdown surface (Figure 3)",
            "![Speed factor of a task beside three others](multicore_figure3.svg)",
            "## Energy by policy (Figure 9)",
            by_policy(),
            f"## Speed on {4 * NODES} cores",
            speed(),
        ],
        "The measured run: 38 NPB jobs on two 4-core nodes, times and energy (9,514 J) by the authors of IRMaSim. "
        "Durations: mean and largest deviation if each job starts at its measured time and place; own: deviations if "
        "`shortest-high_gflops` schedules the jobs; *example*: the platform file that IRMaSim gives for this run. "
        f"Figure 9: heterogeneous cluster of Table III, batches of {BATCH} jobs of Table IV, seeds {BATCHES[0]} to "
        f"{BATCHES[-1]}, submitted within 120 s. Speed: {JOBS:,} jobs of Table IV with contention, one core.",
    )


if __name__ == "__main__":
    main()
