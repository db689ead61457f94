"""Every policy on two clusters with shared nodes: waits, slowdown, use, and the time of each simulation."""

import time
from collections.abc import Iterator

import numpy as np

from allocopt.cluster.reading import read_cluster
from allocopt.errors import AllocoptError
from allocopt.kernels.ready import make_ready
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.metrics import measure
from allocopt.simulator.multicore.policies import Action
from allocopt.simulator.rooms import kernels_of
from allocopt.simulator.rules import QueueOrder
from allocopt.simulator.scheduler import BACKFILLS, WithExecution, get_policy, policy_names
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.window import OptimizationScheduler
from allocopt.traces.reading import read_workload
from papers.pages import page_parser, write_page

SITES = {"ubhpc": "workload_week.events.gz", "micro": "jobs500.events"}
FILES = ("slurm.conf", "gres.conf", "topology.conf")
HEADER = ("policy", "mean wait s", "slowdown", "longest wait s", "cores %", "jobs/s", "s")
DIGITS = (None, 0, 1, 0, 1, 0, 2)
LARGEST = 5000  # most jobs with which all policies are measured
QUICKER = {"optimization": ("optimization by greedy", OptimizationScheduler(solver="greedy"))}
"""Faster replacement of a policy for workloads with more jobs: its name in the table, and the scheduler.

An exact selection with three resources takes 0.025 s in the median and up to 4 s; the week needs 40,000 of them.
"""


def is_slow(name: str) -> bool:
    """Return whether a policy takes more than minutes for a week of 20,000 jobs.

    Conservative backfilling examines and sorts all waiting jobs every half minute.
    """
    return name == "cush" or name.endswith("+conservative")


def policies() -> Iterator[str]:
    """Yield the names of all policies for clusters; queue orders are combined with every kind of backfilling."""
    for name in policy_names():
        policy = get_policy(name)
        if isinstance(policy, QueueOrder):
            yield from (name if kind == "none" else f"{name}+{kind}" for kind in BACKFILLS)
        elif not isinstance(policy, WithExecution | Action):
            yield name


def main() -> None:
    asked = page_parser(__doc__, "one policy of each kind", "the sites ubhpc and micro").parse_args()
    names = ("fcfs+easy", "window") if asked.quick else tuple(policies())
    sections, facts = [], []
    for site, trace in SITES.items():
        folder = asked.data / "sites" / site
        cluster = read_cluster([folder / name for name in FILES if (folder / name).exists()])
        workload = admitted(read_workload(folder / trace), cluster, in_nodes=False, skip_oversized=True)
        facts.append(f"{site}: {len(workload):,} jobs on {cluster.size} nodes with {cluster.processors:,} cores")
        cells: list[list[Cell]] = []
        for name in names:
            if len(workload) > LARGEST and is_slow(name):
                continue
            scheduler = as_scheduler(name)
            if len(workload) > LARGEST and name in QUICKER:
                name, scheduler = QUICKER[name]
            make_ready(kernels_of(cluster, scheduler, is_built_in_only=not hasattr(scheduler, "schedule")))
            started = time.perf_counter()
            try:
                schedule = simulate(workload, cluster, scheduler, allocator="first")
            except AllocoptError as error:
                cells.append([f"{name}: {error}", None, None, None, None, None, None])
                continue
            seconds = time.perf_counter() - started
            found = measure(schedule)
            use = dict(found.machine.utilization_by_resource)
            cells.append([
                name, found.jobs.wait_s.mean, found.jobs.bounded_slowdown.mean, float(np.max(schedule.wait_s)),
                100 * use["cores"], len(workload) / seconds, seconds,
            ])  # fmt: skip
            print(site, *cells[-1], flush=True)
        sections.append(f"## {site}\n\n{aligned_table(HEADER, cells, DIGITS)}")
    write_page(
        "policies_on_clusters",
        "Every policy on clusters with shared nodes",
        "Every policy that needs no pool runs on both clusters. UB-HPC's week omits conservative backfilling and "
        "`cush`, which take more than 20 minutes.",
        sections,
        "; ".join(facts) + ". Nodes by the rule `first`. Seconds are of one core, requests read, kernels compiled.",
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
