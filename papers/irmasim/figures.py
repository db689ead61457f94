"""Figure 1: jobs on a fast and a slow node. Figures 7 and 8: batches. Figure 9: the policies.

The paper says neither how many jobs the batches have nor their policy; here jobs start in the order of their
submission. Of Figure 1 it names neither the clocks, here the first and the last of Table III, nor what the benchmarks
of class A execute: here that is what Table IV says of class C, scaled by the sizes that define the classes.
"""

from collections.abc import Iterator

import numpy as np

from allocopt.cluster.irmasim import cluster_of
from allocopt.cluster.multicore import Machine
from allocopt.reproduction import Records
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.npb import TABLE_FOUR, npb_batch
from allocopt.traces.tasks import TaskWorkload
from learned.irmasim.scenario import HETEROGENEOUS, HOMOGENEOUS, PAPERS, SUBSET, jobsets_of
from papers.artifact import Artifact, Asked, Number, Record, for_each_seed, mean_of, published, seed_and_name

PUBLISHED = published("irmasim")
KINDS = [str(kind) for kind in ExecutionKind]
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
    for model, record in records.items():
        start, end, alone = (np.array(record[name]) for name in ("start", "end", "alone"))
        places = list(zip(record["benchmark"], record["node"], strict=True))
        for benchmark in CLASS_A:
            for node in NODES.values():
                times = ((end - start) / alone)[[place == (benchmark, node) for place in places]]
                row, most = f"{model}: {benchmark}.A, {node} node", "most times as long as alone"
                yield Number(row, "mean times as long as alone", float(times.mean()), None, len(times))
                printed = PUBLISHED["figure1"].get(row, {}).get(most)
                yield Number(row, most, float(times.max()), printed, len(times))
        for job, node, first, last in zip(record["job"], record["node"], start, end, strict=True):
            yield Number(f"{model}: job {job}, {node} node", "start s", float(first))
            yield Number(f"{model}: job {job}, {node} node", "end s", float(last))


ONE = Artifact(
    "irmasim-figure1",
    "Figure 1 of the IRMaSim paper: ep.A and lu.A on a fast and a slow node",
    lambda asked: KINDS,
    _two_nodes,
    _slowdowns,
)

SIZES = (100, 200, 300, 400, 500)
"""Jobs of the batches."""
BELOW = "baseline below contention"
MEASURES = ("makespan s", "energy kJ", "mean power W")


def _batches(number: int, cluster: str) -> Artifact:
    """Return a figure of batches of growing size on one of the paper's clusters."""
    below, power = PUBLISHED[f"figure{number}"][BELOW], PUBLISHED.get(f"power{number}", {})

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
                yield mean_of(piece, column, found[column], power.get(piece.split(": ")[1], {}).get(column))
        for piece, found in records.items():
            size, kind = piece.split(": ")
            other = f"{size}: {ExecutionKind.CONTENTION}"
            if kind == ExecutionKind.BASELINE and other in records:
                for measure in MEASURES[:2]:
                    pairs = zip(found[measure], records[other][measure], strict=True)
                    shares = [100 * (1 - one / reference) for one, reference in pairs]
                    column = f"{measure.split()[0]} %"
                    yield mean_of(f"{size}: {BELOW}", column, shares, below[column])

    return Artifact(
        f"irmasim-figure{number}",
        f"Figure {number} of the IRMaSim paper: makespan and energy on the {cluster} cluster",
        lambda asked: [f"{size} jobs: {kind}" for size in asked.size(SIZES, SIZES[:2]) for kind in KINDS],
        record,
        numbers,
    )


SEVEN, EIGHT = _batches(7, HOMOGENEOUS), _batches(8, HETEROGENEOUS)

JOBS = 100
FIRST_BATCH = 100
"""Seed that draws the batch of the first seed: the one on which agents are trained."""
ENERGY, RATIO = "energy kJ", "energy over the least, %"
WORST, WORST_OF_SUBSET = "worst of all above the least, %", "worst of the subset above its least, %"


def _policies(asked: Asked, piece: str) -> Record:
    # All 36 policies, or, quick, those of the subset among which agents choose.
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
    for kind in KINDS:
        of = [record for piece, record in records.items() if piece.endswith(f": {kind}")]
        for name in of[0]:
            yield mean_of(f"{kind}: {name}", ENERGY, [record[name] for record in of])
            above = [100 * (record[name] / min(record.values()) - 1) for record in of]
            yield mean_of(f"{kind}: {name}", RATIO, above)
        for column, names in ((WORST, list(of[0])), (WORST_OF_SUBSET, SUBSET)):
            energies = [[record[name] for name in names] for record in of]
            yield mean_of(kind, column, [100 * (max(values) / min(values) - 1) for values in energies])


NINE = Artifact(
    "irmasim-figure9",
    "Figure 9 of the IRMaSim paper: energy by policy on the heterogeneous cluster",
    for_each_seed(KINDS),
    _policies,
    _energies,
)
