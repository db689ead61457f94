"""Random multicore machines and jobs, and the measured run with its platform."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.simulator.multicore.simulation import PlacedJobs
from allocopt.traces.tasks import TaskWorkload, read_irmasim

PLATFORM = """
format = "allocopt-platform"
version = 1
name = "pair"

[processors.k]
cores = 2
clock_ghz = 2.0
contention = { b = -1.85e-5, c = 32000, da = 1.75, db = 3500, dc = 45000, dd = 3000 }
power = { core_w = 6.0, processor_w = 5.0, idle_w = 1.0 }

[nodes.n]
processors = ["k"]

[[clusters]]
name = "c"
nodes = [{ type = "n", names = ["left"] }, { type = "n", names = ["right"] }]
"""
"""A machine of two nodes, each a processor of two cores that share memory channels."""

MEASURED_ENERGY_J = 9514.0
MEASURED_MAKESPAN_S = 490.56554054 - 0.07832527


def random_machine(rng: np.random.Generator) -> Machine:
    """Up to four nodes of different processors."""
    kinds = [_random_processor(rng, number) for number in range(3)]
    nodes = []
    for number in range(int(rng.integers(1, 5))):
        sockets = tuple(kinds[kind] for kind in rng.integers(3, size=rng.integers(1, 3)))
        memory = None if rng.random() < 0.3 else float(rng.uniform(3500, 6000))
        nodes.append(Node(f"n{number}", sockets, memory))
    half = len(nodes) // 2
    clusters = [Cluster("a", tuple(nodes[half:]))] + ([Cluster("b", tuple(nodes[:half]))] if half else [])
    return Machine("random", tuple(clusters))


def _random_processor(rng: np.random.Generator, number: int) -> Processor:
    contention = ContentionConstants(
        -rng.uniform(1e-5, 1e-4),
        rng.uniform(5e3, 4e4),
        rng.uniform(0, 3),
        rng.uniform(500, 5e3),
        rng.uniform(1e4, 6e4),
        rng.uniform(0, 8e3),
    )
    power = PowerConstants(rng.uniform(1, 8), rng.uniform(1, 8), rng.uniform(0, 1), rng.uniform(0.3, 1))
    return Processor(
        f"p{number}",
        int(rng.integers(1, 6)),
        rng.uniform(1, 4),
        float(rng.integers(1, 3)),
        None if rng.random() < 0.5 else rng.uniform(1e4, 5e4),
        None if rng.random() < 0.2 else contention,
        power,
    )


def random_jobs(rng: np.random.Generator, machine: Machine, jobs: int) -> TaskWorkload:
    """Jobs each of which can start on the machine, some of them on several nodes."""
    largest = max(node.cores for node in machine.nodes())
    fits_all = min(node.cores for node in machine.nodes())
    n_nodes = len(list(machine.nodes()))
    nodes, tasks = np.ones(jobs, dtype=np.int64), rng.integers(1, largest + 1, size=jobs)
    for job in np.flatnonzero(rng.random(jobs) < 0.3):
        nodes[job] = rng.integers(1, n_nodes + 1)
        per_node = rng.integers(1, fits_all + 1)
        tasks[job] = rng.integers((nodes[job] - 1) * per_node + 1, nodes[job] * per_node + 1)
        if -(-tasks[job] // nodes[job]) * (nodes[job] - 1) >= tasks[job]:
            tasks[job] = nodes[job]
    ipc = rng.uniform(0.5, 3, size=jobs)
    work = rng.uniform(5, 100, size=jobs)
    return TaskWorkload(
        "random",
        tuple(f"job{number}" for number in range(jobs)),
        np.sort(rng.uniform(0, 60, size=jobs)),
        nodes,
        tasks,
        work * ipc * 1e9,
        ipc,
        rng.uniform(0, 350, size=jobs),
        work * rng.uniform(0, 12e3, size=jobs),
        rng.uniform(10, 100, size=jobs),
    )


def measured_machine(stalled: float = 1.0) -> Machine:
    """Return the two nodes of the measured run with the constants of Table III."""
    fast, slow = irmasim_testbed({3.4: 1, 1.7: 1}, stalled).nodes()
    return Machine("measured", (Cluster("labatc", (replace(fast, name="n1112"), replace(slow, name="n1113"))),))


def measured_jobs(shared_data: Path) -> TaskWorkload:
    """Read the jobs of the measured run."""
    return read_irmasim(examples(shared_data) / "cal" / "job_4_cal_str_19314_log2_v1" / "workload.json")


def measured_run(shared_data: Path) -> PlacedJobs:
    """Read where and when they were started, and how many seconds they took."""
    return PlacedJobs.read(shared_data / "irmasim" / "derived_measured_jobs.csv", measured_jobs(shared_data).names)


def examples(shared_data: Path) -> Path:
    """Return the folder of IRMaSim's examples."""
    return shared_data / "irmasim" / "examples"
