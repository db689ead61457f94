"""A week of a university's cluster with shared nodes: waits, use, and whether jobs wait although nodes are free."""

import time
from itertools import product

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.reading import read_cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.metrics import measure
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from papers.pages import page_parser, write_page

SITE = "sites/ubhpc"
SCHEDULERS, ALLOCATORS = ("easy", "sjf+easy"), ("first", "best-fit", "lowest-switch")
LONG_S = 86_400.0
HEADER = (
    "scheduler", "allocator", "mean wait s", "slowdown", "over a day", "cores %", "nodes %", "looks", "had room",
    "first had room", "s",
)  # fmt: skip
DIGITS = (None, None, 0, 1, 0, 1, 1, 0, 0, 0, 2)


def has_room(request: ClusterRequest, free: IntArray, users: IntArray) -> bool:
    """Return whether a job fits on the nodes, ignoring reservations; written without the simulation's code."""
    room = np.where(request.is_exclusive & (users > 0), 0, request.room(free))
    for mask in request.masks:
        tasks = np.sort(np.where(mask, room, 0))[::-1][: request.most_nodes]
        if tasks.sum() >= request.tasks and np.count_nonzero(tasks) >= request.least_nodes:
            return True
    return False


def looks(schedule: ClusterSchedule) -> tuple[int, int, int]:
    """Count looks at requests that have waited a day: all, those with room, those of first jobs with room.

    A look is a time at which something starts or ends.
    """
    cluster, workload = schedule.cluster, schedule.workload
    kinds = {asked: asked.on(cluster) for asked in set(workload.requests.tolist())}
    of_job = [kinds[asked] for asked in workload.requests.tolist()]
    free, users = cluster.capacity.copy(), np.zeros(cluster.size, dtype=np.int64)
    late = np.flatnonzero(schedule.wait_s > LONG_S)
    late_kinds = {workload.requests[job] for job in late}
    by_kind = {kind: late[[workload.requests[job] == kind for job in late]] for kind in late_kinds}
    partition = np.array([request.partition for request in of_job])
    events = sorted(
        [(time, -1, job) for job, time in enumerate(schedule.end.tolist())]
        + [(time, 1, job) for job, time in enumerate(schedule.start.tolist())]
    )
    counts = [0, 0, 0]
    for place, (now, sign, job) in enumerate(events):
        request, nodes = of_job[job], (schedule.nodes or ())[job]
        held = request.per_node + schedule.tasks[job][:, None] * request.per_task
        free[nodes] -= sign * (cluster.capacity[nodes] if request.is_exclusive else held)
        users[nodes] += sign
        if place + 1 < len(events) and events[place + 1][0] == now:
            continue
        assert (free >= 0).all(), "a node is over what it has"
        waiting = late[(workload.submit[late] <= now) & (schedule.start[late] > now)]
        for kind, own in by_kind.items():
            own = own[(workload.submit[own] + LONG_S <= now) & (schedule.start[own] > now)]
            if len(own):
                room = has_room(kinds[kind], free, users)
                first = waiting[partition[waiting] == partition[own[0]]][0]
                counts[0] += 1
                counts[1] += room
                counts[2] += room and int(own[0] == first)
    return counts[0], counts[1], counts[2]


def main() -> None:
    asked = page_parser(__doc__, "one combination", f"the site {SITE}").parse_args()
    site = asked.data / SITE
    cluster: Cluster = read_cluster([site / name for name in ("slurm.conf", "gres.conf", "topology.conf")])
    workload = admitted(read_workload(site / "workload_week.events.gz"), cluster, in_nodes=False, skip_oversized=True)
    cells: list[list[Cell]] = []
    simulate(workload.first(10), cluster)
    for scheduler, allocator in list(product(SCHEDULERS, ALLOCATORS))[: 1 if asked.quick else None]:
        started = time.process_time()
        schedule = simulate(workload, cluster, scheduler, allocator=allocator)
        seconds = time.process_time() - started
        found = measure(schedule)
        use = dict(found.machine.utilization_by_resource)
        # In other orders the first job of the queue is not the first submitted one.
        looked, room, first = looks(schedule)
        cells.append([
            scheduler, allocator, found.jobs.wait_s.mean, found.jobs.bounded_slowdown.mean, found.jobs.starved,
            100 * use["cores"], 100 * use["nodes"], looked, room, first if scheduler == "easy" else None, seconds,
        ])  # fmt: skip
    write_page(
        "cluster_week",
        "A week of a cluster whose nodes jobs share",
        "With UB-HPC's own nodes, partitions and requests no job waits for days although nodes are free for it. The "
        "first job of a partition that has waited a day never has room. Other such jobs have room at less than 4 % "
        "of the times, when the free nodes are reserved for a job before them.",
        [aligned_table(HEADER, cells, DIGITS)],
        f"{len(workload):,} jobs of a week, {np.count_nonzero([len(one) > 1 for one in schedule.nodes or ()]):,} of "
        f"them on several nodes, on the {cluster.size} nodes that `slurm.conf` and `topology.conf` both have, "
        f"{cluster.processors:,} cores; EASY keeps a reservation for the first waiting job of each partition. The "
        "queue does not drain in the week, so that waits depend on its length; use is over the time to the last end. "
        "A look is a start or end of any job, for each request of which a job has waited a day. `had room` counts "
        "the looks at which nodes were free for it, reserved or not, recomputed from the schedule; `first had room` "
        "counts those at which it was the first waiting job of its partition. Seconds are of one core, without "
        "reading requests.",
    )


if __name__ == "__main__":
    main()
