"""Writes `policies.md`, a table of which policies run on which machines with which execution models: it tries each."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.multicore import Machine
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import Request
from allocopt.cluster.topology import FatTree
from allocopt.envs.policy_selection.task import irmasim_testbed
from allocopt.errors import AllocoptError, UsageError
from allocopt.simulator.execution import ExecutionModel, HopSlowdown, Locality
from allocopt.simulator.multicore.policies import Action
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.rules import Backfill, QueueOrder, Rules
from allocopt.simulator.scheduler import AnyScheduler, ListScheduler, get_policy, policy_names
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import WORKFLOWS, profiled_jobs
from allocopt.traces.tasks import npb_batch
from allocopt.traces.workload import Workload

PAGE = Path(__file__).with_name("policies.md")
N_JOBS, N_NODES = 12, 8
TREE = FatTree(2, 2, 2)
HEAD = """\
# Policies, machines and execution models

<!-- written by docs/policies_page.py, which simulates every cell -->

Every queue order, with every kind of backfilling, and every scheduler runs on every machine in the table, unless a
note gives the reason why it cannot. The rules of pools and whole nodes are in [simulator.md](simulator.md), those of
clusters whose nodes jobs share in [clusters.md](clusters.md), those of multicore machines in [irmasim.md](irmasim.md).

{table}

{notes}

On a cluster, schedulers see what is free on all nodes together, and whether a job finds room. Agents that were trained
on a pool see a cluster as a pool with as many units as it has cores. A job counts there for its share of the resource
that it asks for most of.
"""


class Place(NamedTuple):
    """A machine with an execution model, None for speed 1."""

    machine: Any
    execution: ExecutionModel | None


def workload() -> Workload:
    """Return jobs with the profiles of applications; every fourth asks for GPUs in one partition, others for cores."""
    rng = np.random.default_rng(0)
    sizes, run_s = rng.integers(1, 5, N_JOBS), rng.integers(60, 600, N_JOBS).astype(np.float64)
    requests = np.empty(N_JOBS, dtype=np.object_)
    requests[:] = [
        Request(
            tasks=int(size), gpus_per_task=(("", 1.0),) if job % 4 == 0 else (), partition=("gpu", "cpu")[job % 4 > 0]
        )
        for job, size in enumerate(sizes)
    ]
    return Workload(
        "jobs",
        np.arange(1, N_JOBS + 1),
        np.sort(rng.integers(0, 600, N_JOBS)).astype(np.float64),
        run_s,
        sizes,
        2 * run_s,
        users=rng.integers(0, 3, N_JOBS),
        executables=rng.integers(1, len(WORKFLOWS) + 1, N_JOBS),
        requests=requests,
    )


def places(jobs: Workload) -> Mapping[str, Place]:
    """Return the machines with their execution models, by the head of the column in the table."""
    whole = Platform.whole_nodes(TREE)
    names = tuple(f"n{number}" for number in range(N_NODES))
    nodes = [ClusterNode(name, 4, gpus={"": 4} if number < 2 else {}) for number, name in enumerate(names)]
    cluster = Cluster.of(nodes, None, [Partition("cpu", names), Partition("gpu", names[:2])])
    hops, ones = HopSlowdown(TREE, 0.5), np.ones(len(jobs), dtype=np.int64)
    near = Locality(jobs.run, ones, 4 * ones, 0.0 * jobs.run, 0.1 * jobs.run)
    quotas = QuotaExecution(profiled_jobs(jobs, WORKFLOWS))
    return {
        "multicore": Place(irmasim_testbed(), None),
        "pool": Place(Platform.pool(N_NODES), None),
        "pool, quotas": Place(Platform.pool(N_NODES), quotas),
        "whole nodes": Place(whole, None),
        "whole nodes, hops": Place(whole, hops),
        "whole nodes, locality": Place(whole, near),
        "cluster": Place(cluster, None),
        "cluster, hops": Place(cluster, HopSlowdown(cluster.topology.tree, 0.5)),
        "cluster, locality": Place(cluster, near),
    }


def schedulers(name: str) -> Iterator[AnyScheduler]:
    """Yield what a name stands for: a queue order with every kind of backfilling, or a scheduler."""
    policy = get_policy(name)
    if isinstance(policy, QueueOrder):
        yield from (ListScheduler(policy, backfill) for backfill in Backfill)
    elif not isinstance(policy, Action):
        yield policy


def multicore_fault(name: str, machine: Machine) -> str:
    """Return why a policy does not run on a multicore machine; an empty text if it does."""
    try:
        simulate(npb_batch(N_JOBS, np.random.default_rng(0)), machine, name)
    except UsageError:
        pairs = "a policy there is a pair of selections, of a job and of cores, such as `shortest-low_power`"
        return f"a multicore machine starts the tasks of a job one by one: {pairs}"
    return ""


def fault(name: str, jobs: Workload, place: Place) -> str:
    """Return why a policy does not run at a place; an empty text if it does."""
    if isinstance(place.machine, Machine):
        return multicore_fault(name, place.machine)
    for scheduler in schedulers(name):
        try:
            schedule = simulate(
                *(jobs, place.machine, scheduler, Rules(kill_at_limit=False)), execution=place.execution
            )
        except AllocoptError as error:
            # Without the name, so that policies with the same fault share a note.
            return re.sub(r"^policy '[a-z0-9-]+' ", "the policy ", str(error))
        if not (schedule.end > schedule.start).all():
            return "leaves jobs waiting"
    return ""


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield the name of every policy, the head of every place, and why it does not run there, or an empty text."""
    jobs = workload()
    for name in policy_names():
        if not isinstance(get_policy(name), Action):
            for head, place in places(jobs).items():
                yield name, head, fault(name, jobs, place)


def page() -> str:
    """Return the page."""
    found = list(cells())
    heads = list(dict.fromkeys(head for _, head, _ in found))
    notes = list(dict.fromkeys(reason for *_, reason in found if reason))
    rows: dict[str, list[str]] = {}
    for name, _, reason in found:
        rows.setdefault(name, []).append(f"({notes.index(reason) + 1})" if reason else "runs")
    lines = [f"| policy | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    lines += [f"| `{name}` | {' | '.join(row)} |" for name, row in rows.items()]
    told = [f"({number}) {reason}" for number, reason in enumerate(notes, 1)]
    return HEAD.format(table="\n".join(lines), notes="\n\n".join(told))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
