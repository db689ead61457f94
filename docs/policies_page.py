"""Write `policies.md`: simulate every policy on every machine and execution model, and report which of them run."""

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

<!-- written by docs/policies_page.py, which simulates every cell of the table -->

The table shows where each policy runs. A queue order runs there with every kind of backfilling. A number in brackets
refers to the reason below the table. For the rules of pools and whole nodes, see [simulator.md](simulator.md); of
clusters with shared nodes, [clusters.md](clusters.md); of multicore machines, [irmasim.md](irmasim.md).

{table}

{notes}

On a cluster, schedulers see the sum of the free resources of all nodes, and whether a job fits. Agents that were
trained on a pool see a cluster as a pool with one unit per core. In this pool a job asks for a share of the units: the
largest share that it asks for of any resource of the cluster.
"""


class Setting(NamedTuple):
    """A machine, and an execution model; None if all jobs run at speed 1."""

    machine: Any
    execution: ExecutionModel | None


def workload() -> Workload:
    """Return jobs with application profiles; every fourth asks for GPUs in a partition, the others only for cores."""
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


def settings(jobs: Workload) -> Mapping[str, Setting]:
    """Return the settings by the heading of their column in the table."""
    whole = Platform.whole_nodes(TREE)
    names = tuple(f"n{number}" for number in range(N_NODES))
    nodes = [ClusterNode(name, 4, gpus={"": 4} if number < 2 else {}) for number, name in enumerate(names)]
    cluster = Cluster.of(nodes, None, [Partition("cpu", names), Partition("gpu", names[:2])])
    hops, ones = HopSlowdown(TREE, 0.5), np.ones(len(jobs), dtype=np.int64)
    near = Locality(jobs.run, ones, 4 * ones, 0.0 * jobs.run, 0.1 * jobs.run)
    quotas = QuotaExecution(profiled_jobs(jobs, WORKFLOWS))
    return {
        "multicore": Setting(irmasim_testbed(), None),
        "pool": Setting(Platform.pool(N_NODES), None),
        "pool, quotas": Setting(Platform.pool(N_NODES), quotas),
        "whole nodes": Setting(whole, None),
        "whole nodes, hops": Setting(whole, hops),
        "whole nodes, locality": Setting(whole, near),
        "cluster": Setting(cluster, None),
        "cluster, hops": Setting(cluster, HopSlowdown(cluster.topology.tree, 0.5)),
        "cluster, locality": Setting(cluster, near),
    }


def schedulers(name: str) -> Iterator[AnyScheduler]:
    """Yield the schedulers of a policy: one per kind of backfilling if it is a queue order, otherwise the policy."""
    policy = get_policy(name)
    if isinstance(policy, QueueOrder):
        yield from (ListScheduler(policy, backfill) for backfill in Backfill)
    elif not isinstance(policy, Action):
        yield policy


def multicore_fault(name: str, machine: Machine) -> str:
    """Return the reason why a policy does not run on a multicore machine; empty if it runs."""
    try:
        simulate(npb_batch(N_JOBS, np.random.default_rng(0)), machine, name)
    except UsageError:
        pairs = "a policy combines a selection of the job and one of the cores, such as `shortest-low_power`"
        return f"on a multicore machine the tasks of a job start one by one, so {pairs}"
    return ""


def fault(name: str, jobs: Workload, setting: Setting) -> str:
    """Return the reason why a policy does not run in a setting; empty if it runs."""
    if isinstance(setting.machine, Machine):
        return multicore_fault(name, setting.machine)
    for scheduler in schedulers(name):
        try:
            schedule = simulate(
                *(jobs, setting.machine, scheduler, Rules(kill_at_limit=False)), execution=setting.execution
            )
        except AllocoptError as error:
            # The name is removed, so that policies with the same fault share a note.
            return re.sub(r"^policy '[a-z0-9-]+' ", "the policy ", str(error))
        if not (schedule.end > schedule.start).all():
            return "leaves jobs waiting"
    return ""


def cells() -> Iterator[tuple[str, str, str]]:
    """Yield policy, column and fault of each cell of the table; the fault is empty if the policy runs."""
    jobs = workload()
    for name in policy_names():
        if not isinstance(get_policy(name), Action):
            for column, setting in settings(jobs).items():
                yield name, column, fault(name, jobs, setting)


def page() -> str:
    """Return the page."""
    found = list(cells())
    columns = list(dict.fromkeys(column for _, column, _ in found))
    notes = list(dict.fromkeys(reason for *_, reason in found if reason))
    rows: dict[str, list[str]] = {}
    for name, _, reason in found:
        rows.setdefault(name, []).append(f"({notes.index(reason) + 1})" if reason else "runs")
    lines = [f"| policy | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| `{name}` | {' | '.join(row)} |" for name, row in rows.items()]
    numbered = [f"({number}) {reason}" for number, reason in enumerate(notes, 1)]
    return HEAD.format(table="\n".join(lines), notes="\n\n".join(numbered))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
