"""Figure 1: jobs on a fast and a slow node. Figures 7 and 8: batches. Figure 9: the policies.

The paper says neither how many jobs the batches have nor their policy; here jobs start in the order of their
submission. Of Figure 1 it names neither the clocks, here the first and the last of Table III, nor what the benchmarks
of class A execute: here that is what Table IV says of class C, scaled by the sizes that define the classes.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from allocopt.cluster.irmasim import cluster_of
from allocopt.cluster.multicore import Machine
from allocopt.reproduction import Records
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.npb import TABLE_FOUR, npb_batch
from allocopt.traces.tasks import TaskWorkload
from learned.irmasim.environment import HETEROGENEOUS, HOMOGENEOUS, PAPERS, SUBSET, jobsets_of
from papers.artifact import Artifact, Asked, Number, Record, mean_of, seed_and_name
from papers.irmasim.published import BELOW_HETEROGENEOUS, BELOW_HOMOGENEOUS, POWER_HOMOGENEOUS, WORST_OF_LU

FIRST_COME = "first-high_gflops"
NODES = {3.4: "fast", 1.7: "slow"}
"""The nodes of Figure 1 by clock in GHz."""
TIMES = 10
CLASS_A = {"ep": ("ep.C", 2.0**28 / 2.0**32), "lu": ("lu.C", (64 / 162) ** 3)}
"""The benchmark of class C, and the work of class A over its: random numbers of ep, points of lu's grid."""


def workload() -> TaskWorkload:
    """Return ten jobs of ep.A, then ten of lu.A, submitted at once."""
    known = {one.name: one for one in TABLE_FOUR}
    ran = [(name, known[of], share) for name, (of, share) in CLASS_A.items() for _ in range(TIMES)]
    n = len(ran)
    instructions = np.array([one.instructions * share for _, one, share in ran])
    ipc, ones = np.array([one.ipc for _, one, _ in ran]), np.ones(n, dtype=np.int64)
    return TaskWorkload(
        "ep-and-lu",
        tuple(f"{name}{number}" for number, (name, _, _) in enumerate(ran)),
        np.zeros(n),
        ones,
        ones,
        instructions,
        ipc,
        np.zeros(n),
        np.array([one.volume_mb * share for _, one, share in ran]),
        instructions / ipc / 3.4e9,
        tuple(name for name, _, _ in ran),
    )


def machine() -> Machine:
    """Return a fast and a slow node."""
    return cluster_of(dict.fromkeys(NODES, 1))


def _two_nodes(asked: Asked, piece: str) -> Record:
    made = simulate(workload(), machine(), FIRST_COME, execution=Execution(ExecutionKind(piece)))
    nodes = [int(nodes[0]) for nodes in made.nodes]
    jobs = made.jobs
    return {
        "job": list(jobs.names),
        "benchmark": list(jobs.applications),
        "node": [list(NODES.values())[node] for node in nodes],
        "start": made.start.tolist(),
        "end": made.end.tolist(),
        "alone": [work / list(NODES)[node] for work, node in zip(jobs.work.tolist(), nodes, strict=True)],
    }


def _slowdowns(records: Records) -> Iterator[Number]:
    """Yield the slowdowns by benchmark and node, and the times of all jobs."""
    for model, record in records.items():
        start, end, alone = (np.array(record[name]) for name in ("start", "end", "alone"))
        places = list(zip(record["benchmark"], record["node"], strict=True))
        for benchmark in CLASS_A:
            for node in NODES.values():
                times = ((end - start) / alone)[[place == (benchmark, node) for place in places]]
                is_printed = (benchmark, node, model) == ("lu", "fast", ExecutionKind.CONTENTION)
                worst, row = WORST_OF_LU if is_printed else None, f"{model}: {benchmark}.A, {node} node"
                yield Number(row, "mean times as long as alone", float(times.mean()), None, len(times))
                yield Number(row, "most times as long as alone", float(times.max()), worst, len(times))
        for job, node, first, last in zip(record["job"], record["node"], start, end, strict=True):
            yield Number(f"{model}: job {job}, {node} node", "start s", float(first))
            yield Number(f"{model}: job {job}, {node} node", "end s", float(last))


ONE = Artifact(
    "irmasim-figure1",
    "Figure 1 of the IRMaSim paper: ep.A and lu.A on a fast and a slow node",
    lambda asked: [str(kind) for kind in ExecutionKind],
    _two_nodes,
    _slowdowns,
)

SIZES = (100, 200, 300, 400, 500)
"""Jobs of the batches."""
BELOW = "baseline below contention"
MEASURES = ("makespan s", "energy kJ", "mean power W")


def _batches(name: str, cluster: str, below: Mapping[str, float], power: Mapping[str, float]) -> Artifact:
    """Return a figure of batches of growing size on one of the paper's clusters, beside percentages and watts."""

    def record(asked: Asked, piece: str) -> Record:
        size, kind = piece.split(" jobs: ")
        execution = Execution(ExecutionKind(kind))
        found: dict[str, list[float]] = {name: [] for name in MEASURES}
        for seed in asked.seeds:
            jobs = npb_batch(int(size), np.random.default_rng((seed, int(size))))
            made = simulate(jobs, PAPERS[cluster], FIRST_COME, execution=execution)
            values = (made.makespan_s, made.energy_j / 1e3, made.energy_j / made.makespan_s)
            for measure, value in zip(MEASURES, values, strict=True):
                found[measure].append(float(value))
        return found

    def numbers(records: Records) -> Iterator[Number]:
        for piece, found in records.items():
            for column in MEASURES:
                published = power.get(piece.split(": ")[1]) if column == MEASURES[-1] else None
                yield mean_of(piece, column, found[column], published)
        for piece, found in records.items():
            size, kind = piece.split(": ")
            other = f"{size}: {ExecutionKind.CONTENTION}"
            if kind == ExecutionKind.BASELINE and other in records:
                for column, published in below.items():
                    pairs = zip(found[column], records[other][column], strict=True)
                    shares = [100 * (1 - one / reference) for one, reference in pairs]
                    yield mean_of(f"{size}: {BELOW}", f"{column.split()[0]} %", shares, published)

    number = name.removeprefix("irmasim-figure")
    return Artifact(
        name,
        f"Figure {number} of the IRMaSim paper: makespan and energy on the {cluster} cluster",
        lambda asked: [f"{size} jobs: {kind}" for size in asked.size(SIZES, SIZES[:2]) for kind in ExecutionKind],
        record,
        numbers,
    )


SEVEN = _batches("irmasim-figure7", HOMOGENEOUS, BELOW_HOMOGENEOUS, POWER_HOMOGENEOUS)
EIGHT = _batches("irmasim-figure8", HETEROGENEOUS, BELOW_HETEROGENEOUS, {})

JOBS = 100
FIRST_BATCH = 100
"""Seed that draws the batch of the first seed: the one on which agents are trained."""
ENERGY, RATIO = "energy kJ", "energy over the least, %"
WORST, WORST_OF_SUBSET = "worst of all above the least, %", "worst of the subset above its least, %"


def _policies(asked: Asked, piece: str) -> Record:
    """Simulate a batch under all 36 policies, or, quick, under those of the subset among which agents choose."""
    seed, kind = seed_and_name(piece)
    jobs = jobsets_of("", JOBS, FIRST_BATCH + seed)[0]
    execution = Execution(ExecutionKind(kind))
    names = asked.size([name for name in ACTION_NAMES if name != VOID_NAME], SUBSET)
    return {
        name: simulate(jobs, PAPERS[HETEROGENEOUS], name, seed=seed, execution=execution).energy_j / 1e3
        for name in names
    }


def _energies(records: Records) -> Iterator[Number]:
    """Yield energies by policy, and by how much per cent the greatest is above the least."""
    for kind in ExecutionKind:
        of = [record for piece, record in records.items() if piece.endswith(f": {kind}")]
        for name in of[0]:
            yield mean_of(f"{kind}: {name}", ENERGY, [record[name] for record in of])
            above = [100 * (record[name] / min(record.values()) - 1) for record in of]
            yield mean_of(f"{kind}: {name}", RATIO, above)
        for column, names in ((WORST, list(of[0])), (WORST_OF_SUBSET, SUBSET)):
            energies = [[record[name] for name in names] for record in of]
            yield mean_of(f"{kind}", column, [100 * (max(values) / min(values) - 1) for values in energies])


NINE = Artifact(
    "irmasim-figure9",
    "Figure 9 of the IRMaSim paper: energy by policy on the heterogeneous cluster",
    lambda asked: [f"seed {seed}: {kind}" for seed in asked.seeds for kind in ExecutionKind],
    _policies,
    _energies,
)
