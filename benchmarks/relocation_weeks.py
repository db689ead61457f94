"""The gain if running jobs make room for gangs: weeks of a GPU cluster, and a university's week.

Every hour, smaller jobs may be stopped or moved for gangs that have waited an hour (policy ``relocation``).
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.reading import read_cluster
from allocopt.cluster.request import Request
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.relocating import RelocationScheduler
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.variants import Interval
from allocopt.traces.workload import Workload
from papers.pages import page_parser, write_page

SITE = "sites/ubhpc"
BLOCKS, BLOCK_NODES, GPUS = 16, 16, 8
DAYS, LOAD, GANG_SHARE = 7, 0.9, 0.5
"""Days of a synthetic week, its load by GPUs, and the gangs' share of the load."""
SMALL_GPUS, SMALL_ODDS = (1, 2, 4, 8), (0.5, 0.2, 0.15, 0.15)
GANG_NODES = (4, 8, 16)
SMALL_MEDIAN_H, GANG_MEDIAN_H, SPREAD, LONGEST_H = 2.0, 4.0, 1.2, 48.0
SEEDS = range(5)
ASSUMED = f"""\
Policy `relocation` over EASY backfilling, first come, first served: every hour for the first four gangs that
have waited an hour, with at most 10 s for the solver. A job is stopped or moved at most once, and then starts
from the beginning. A gang asks for several nodes. *Wait by size* weighs each job's wait by its requested share
of the machine; relocations minimize this. The university's week is UB-HPC's own trace on its own nodes. The
GPU cluster is synthetic: {BLOCKS} blocks of {BLOCK_NODES} nodes with {GPUS} GPUs each, load {LOAD:g}, half of
it gangs of 4, 8 or 16 whole nodes, which have to stay in a block, half of it jobs of 1 to 8 GPUs. Run times
are log-normal, medians {GANG_MEDIAN_H:g} and {SMALL_MEDIAN_H:g} hours. Means over seeds {SEEDS[0]} to
{SEEDS[-1]}, ratios with 95 % intervals on the same weeks. It is assumed that jobs can be queued again.
"""
RULES: dict[str, str | RelocationScheduler] = {
    "none": "fcfs+easy",
    "exact": RelocationScheduler(),
    "cheapest-first": RelocationScheduler(solver="cheapest-first"),
    "best-rack": RelocationScheduler(solver="best-rack"),
    "slurm-preempt": RelocationScheduler(solver="slurm-preempt"),
}
HEADER = (
    "relocations", "gangs' wait h", "others' wait h", "wait by size h", "moved or stopped", "work lost %",
    "gangs' wait, of none's", "wait by size, of none's",
)  # fmt: skip
DIGITS = (None, 2, 2, 2, 0, 2, None, None)


class Measured(NamedTuple):
    """Results of a schedule: mean waits in hours, stopped and moved jobs, and work lost in per cent.

    ``by_size_h`` weighs each job's wait by the share of the machine that it asks for.
    """

    gangs_h: float
    others_h: float
    by_size_h: float
    requeued: float
    lost: float


def gpu_cluster() -> Cluster:
    """Return blocks of nodes with GPUs; a gang that fits into a block has to stay in one."""
    blocks = [f"BlockName=b{number} Nodes=b{number:02}n[1-{BLOCK_NODES}]" for number in range(BLOCKS)]
    nodes = [f"NodeName=b{number:02}n[1-{BLOCK_NODES}] CPUs=64 Gres=gpu:{GPUS}" for number in range(BLOCKS)]
    lines = ["SelectType=select/cons_tres", "GresTypes=gpu", *nodes, "PartitionName=main Nodes=ALL Default=YES"]
    with TemporaryDirectory() as folder:
        conf, tree = Path(folder) / "slurm.conf", Path(folder) / "topology.conf"
        conf.write_text("\n".join(lines) + "\n")
        tree.write_text("\n".join([*blocks, f"BlockSizes={BLOCK_NODES}"]) + "\n")
        return read_cluster([conf, tree])


def gpu_week(seed: int) -> Workload:
    """Draw jobs that use parts of a node, and gangs of whole nodes, sorted by submission."""
    rng = np.random.default_rng(seed)
    whole = BLOCKS * BLOCK_NODES * GPUS * DAYS * 24 * LOAD
    small = _drawn(rng, whole * (1 - GANG_SHARE), np.array(SMALL_GPUS), np.array(SMALL_ODDS), SMALL_MEDIAN_H)
    sizes = np.array(GANG_NODES) * GPUS
    gangs = _drawn(rng, whole * GANG_SHARE, sizes, np.full(len(sizes), 1 / len(sizes)), GANG_MEDIAN_H)
    gpus, hours = np.concatenate((small, gangs), axis=1)
    requests = np.empty(len(gpus), dtype=np.object_)
    requests[:] = [_request(int(count)) for count in gpus]
    submit = np.sort(rng.uniform(0, DAYS * 86_400.0, len(gpus)))
    order = rng.permutation(len(gpus))
    run = np.ceil(hours[order] * 3600)
    return Workload(
        f"gpu-week-{seed}", np.arange(1, len(gpus) + 1), np.floor(submit), run,
        gpus[order].astype(np.int64), np.ceil(run * rng.uniform(1.0, 3.0, len(run))), requests=requests[order],
    )  # fmt: skip


def _drawn(rng: np.random.Generator, hours: float, sizes: IntArray, odds: FloatArray, median_h: float) -> FloatArray:
    """Draw GPUs and hours of jobs with a total of ``hours`` GPU hours, shape ``(2, n)``."""
    mean_h = float(np.minimum(median_h * np.exp(SPREAD * rng.standard_normal(100_000)), LONGEST_H).mean())
    count = round(hours / (mean_h * float(sizes @ odds)))
    run = np.minimum(median_h * np.exp(SPREAD * rng.standard_normal(count)), LONGEST_H)
    return np.stack((rng.choice(sizes, count, p=odds).astype(np.float64), np.maximum(run, 1 / 60)))


def _request(gpus: int) -> Request:
    nodes = max(1, gpus // GPUS)
    return Request(
        tasks=nodes,
        least_nodes=nodes,
        most_nodes=nodes,
        tasks_per_node=1,
        cores_per_task=0,
        gpus_per_node=(("", min(gpus, GPUS)),),
    )


def measured(schedule: ClusterSchedule) -> Measured:
    """Return the results of a schedule."""
    is_gang, size, wait_h = gangs_of(schedule.workload), _sizes(schedule), schedule.wait_s / 3600
    requeues, lost = 0.0, 0.0
    if schedule.requeues is not None and schedule.lost_s is not None:
        requeues, lost = float(schedule.requeues.sum()), float(schedule.lost_s @ size)
    return Measured(
        float(wait_h[is_gang].mean()),
        float(wait_h[~is_gang].mean()),
        float(wait_h @ size / size.sum()),
        requeues,
        100 * lost / float(schedule.run_s @ size),
    )


def _sizes(schedule: ClusterSchedule) -> FloatArray:
    """Return each job's largest share of a resource of the cluster, shape ``(n,)``."""
    cluster = schedule.cluster
    total = cluster.capacity.sum(axis=0).astype(np.float64)
    found = []
    for request in schedule.workload.requests.tolist():
        asked = request.on(cluster)
        amounts = asked.least_nodes * asked.per_node + asked.tasks * asked.per_task
        found.append(float((amounts / np.where(total > 0, total, np.inf)).max()))
    return np.array(found)


def gangs_of(workload: Workload) -> BoolArray:
    """Return whether each job asks for several nodes."""
    return np.array([request.least_nodes > 1 for request in workload.requests.tolist()], dtype=np.bool_)


def rows(cluster: Cluster, workloads: Sequence[Workload]) -> list[list[Cell]]:
    """Simulate workloads under each rule."""
    found: list[list[Cell]] = []
    first = np.zeros(0)
    for name, scheduler in RULES.items():
        each = np.array([measured(simulate(workload, cluster, scheduler)) for workload in workloads])
        waits = each[:, [0, 2]]
        first = first if len(first) else waits
        ratios = ["", ""] if name == "none" else [_interval(column) for column in (waits / first).T]
        found.append([name, *each.mean(axis=0).tolist(), *ratios])
    return found


def _in_words(table: Sequence[Sequence[Cell]]) -> str:
    """Describe the effect of relocations by the exact program, and by the rule that moves the fewest jobs."""
    none, exact, *rules = ([float(cell) for cell in row[1:6]] for row in table)  # type: ignore[arg-type]
    fewest = min(rule[3] for rule in rules)
    return (
        f"gangs wait {exact[0]:.1f} h instead of {none[0]:.1f}, others {exact[1]:.1f} h instead of {none[1]:.1f}, for "
        f"{exact[3]:.0f} jobs stopped or moved and {exact[4]:.1f} % of the work lost; rules stop or move {fewest:.0f} "
        "or more"
    )


def _interval(ratios: FloatArray) -> str:
    if len(ratios) == 1:
        return f"{ratios[0]:.3f}"
    interval = Interval.of(ratios)
    return f"{interval.mean:.3f} ({interval.low:.3f} .. {interval.high:.3f})"


def main() -> None:
    asked = page_parser(__doc__, "one week", f"the site {SITE}").parse_args()
    weeks = [gpu_week(seed) for seed in SEEDS][: 1 if asked.quick else None]
    site = asked.data / SITE
    cluster = read_cluster([site / name for name in ("slurm.conf", "gres.conf", "topology.conf")])
    jobs = admitted(read_workload(site / "workload_week.events.gz"), cluster, in_nodes=False, skip_oversized=True)
    of_site, of_gpus = rows(cluster, [jobs]), rows(gpu_cluster(), weeks)
    tables = {"A university's week": of_site, "Weeks of a GPU cluster": of_gpus}
    write_page(
        "relocation_weeks",
        "The gain if running jobs make room for gangs",
        f"In a university's own week {_in_words(of_site)}. In weeks of a GPU cluster {_in_words(of_gpus)}.",
        [f"## {title}\n\n{aligned_table(HEADER, table, DIGITS)}" for title, table in tables.items()],
        ASSUMED.replace("\n", " ").strip(),
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
