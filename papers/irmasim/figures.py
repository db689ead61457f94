"""Figure 1: jobs on a fast and a slow node. Figures 7 and 8: batches. Figure 9: the policies. Figures 10, 11: agents.

The paper states neither the number of jobs of the batches nor their policy; here jobs start in the order of submission.
For Figure 1 it states neither the clocks nor the instructions of class A. Here the clocks are the first and the last of
Table III, and the instructions are those of class C in Table IV, scaled by the sizes that define the classes. For the
choices of agents it prints pictures, and names neither the policies nor the numbers of episodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Machine
from allocopt.learned.irmasim.training import (
    HETEROGENEOUS,
    HOMOGENEOUS,
    PAPERS,
    SHARE,
    SUBSET,
    Agent,
    IrmasimTraining,
    policy_rewards,
)
from allocopt.reproduction import Records
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME, NodeSelection
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TABLE_FOUR, TaskWorkload, npb_batch
from papers.artifact import Artifact, Asked, Number, Record, evenly, mean_of, means_over, published, seed_and_name

PUBLISHED = published("irmasim")
KINDS = [str(kind) for kind in ExecutionKind]
FIRST_COME = "first-high_gflops"
NODES = {3.4: "fast", 1.7: "slow"}
"""The nodes of Figure 1 by clock in GHz."""
CLASS_A = {"ep": ("ep.C", 2.0**28 / 2.0**32), "lu": ("lu.C", (64 / 162) ** 3)}
"""Benchmark of class C, and the ratio of class A's work to class C's: random numbers of ep, grid points of lu."""


VOLUMES = {f"{KINDS[0]}, {volume:g} times the memory volume of lu": volume for volume in (1.5, 2.0)}
"""Factor of lu's memory volume in Table IV, by the name of a variation of Figure 1."""


def workload(volume: float = 1.0) -> TaskWorkload:
    """Return ten jobs ep.A, then ten jobs lu.A, submitted at once; lu moves ``volume`` times the volume of Table IV."""
    known = {one.name: one for one in TABLE_FOUR}
    ran = [(name, known[of], share) for name, (of, share) in CLASS_A.items() for _ in range(10)]
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
        np.array([one.volume_mb * share * (volume if name == "lu" else 1.0) for name, one, share in ran]),
        instructions / ipc / 3.4e9,
        tuple(name for name, _, _ in ran),
    )


def machine() -> Machine:
    """Return a fast and a slow node."""
    return irmasim_testbed(dict.fromkeys(NODES, 1))


def _two_nodes(asked: Asked, piece: str) -> Record:
    execution = Execution(ExecutionKind(piece.split(",")[0]))
    made = simulate(workload(VOLUMES.get(piece, 1.0)), machine(), FIRST_COME, execution=execution)
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
        if model in VOLUMES:
            continue
        for job, node, first, last in zip(record["job"], record["node"], start, end, strict=True):
            yield Number(f"{model}: job {job}, {node} node", "start s", float(first))
            yield Number(f"{model}: job {job}, {node} node", "end s", float(last))


ONE = Artifact(
    "irmasim-figure1",
    "Figure 1 of the IRMaSim paper: ep.A and lu.A on a fast and a slow node",
    lambda asked: [*KINDS, *VOLUMES],
    _two_nodes,
    _slowdowns,
)

SIZES = (100, 200, 300, 400, 500)
"""Numbers of jobs of the batches."""
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
"""Seed of the first batch, on which agents are trained."""
ENERGY, RATIO = "energy kJ", "energy over the least, %"
LIGHTER = {f"{KINDS[0]}, {share:g} of the memory volume": share for share in (0.0, 0.25, 0.5)}
"""Share of the memory volume of Table IV that jobs move, by the name of a variation of Figure 9."""
BY_NODES = tuple(nodes.name.lower() for nodes in NodeSelection if nodes is not NodeSelection.HIGH_MEM)
"""Selections of nodes, without `HIGH_MEM`, which here is the same as `HIGH_GFLOPS`: these jobs ask for no memory."""
WORST, WORST_OF_SUBSET = "worst of all above the least, %", "worst of the subset above its least, %"


def _policies(asked: Asked, piece: str) -> Record:
    # All 36 policies; in a quick run only the subset among which agents choose.
    seed, model = seed_and_name(piece)
    jobs = IrmasimTraining(jobs=JOBS, batch=FIRST_BATCH + seed).jobsets()[0]
    jobs = replace(jobs, volume_mb=jobs.volume_mb * LIGHTER.get(model, 1.0))
    execution = Execution(ExecutionKind(model.split(",")[0]))
    names = asked.size([name for name in ACTION_NAMES if name != VOID_NAME], SUBSET)
    if model in LIGHTER:
        names = [f"first-{nodes}" for nodes in BY_NODES]
    return {
        name: simulate(jobs, PAPERS[HETEROGENEOUS], name, seed=seed, execution=execution).energy_j / 1e3
        for name in names
    }


def _energies(records: Records) -> Iterator[Number]:
    """Yield energies by policy, also in per cent above the least, and how far the greatest is above the least."""
    for kind in [*KINDS, *LIGHTER]:
        of = [record for piece, record in records.items() if piece.endswith(f": {kind}")]
        for name in of[0]:
            yield mean_of(f"{kind}: {name}", ENERGY, [record[name] for record in of])
            above = [100 * (record[name] / min(record.values()) - 1) for record in of]
            yield mean_of(f"{kind}: {name}", RATIO, above)
        if kind in LIGHTER:
            continue
        for column, names in ((WORST, list(of[0])), (WORST_OF_SUBSET, SUBSET)):
            energies = [[record[name] for name in names] for record in of]
            yield mean_of(kind, column, [100 * (max(values) / min(values) - 1) for values in energies])


NINE = Artifact(
    "irmasim-figure9",
    "Figure 9 of the IRMaSim paper: energy by policy on the heterogeneous cluster",
    lambda asked: [f"seed {seed}: {model}" for seed in asked.seeds for model in [*KINDS, *LIGHTER]],
    _policies,
    _energies,
)

QUICK_EPISODES = 320
WINDOW = 10
"""Number of updates over which shares are averaged."""
FAVOURED = 0.5
"""A policy is favoured once it has more than this share of all decisions until the end of the training."""
POINTS = 48
"""Number of points of a curve that become rows."""
OVER_BEST, UNTIL, SHARE_AT_END = "energy over the best policy", "episodes until favoured", "share at the end"
FIRST_ENERGY, LAST_ENERGY = "energy over the best policy, first episodes", "energy over the best policy, last episodes"
ENDS = (OVER_BEST, LAST_ENERGY, UNTIL, SHARE_AT_END)


def _convergence(asked: Asked, piece: str, model: ExecutionKind) -> Record:
    usual = IrmasimTraining()
    training = IrmasimTraining(
        agent=asked.agent,
        model=model.value,
        episodes=asked.size(usual.episodes, QUICK_EPISODES),
        ent_coef=usual.ent_coef if asked.entropy < 0 else asked.entropy,
    )
    learner, rows = training.trained(seed_and_name(piece)[0])
    machine, jobs = training.machine(), training.jobsets()[0]
    alone = -policy_rewards([jobs], machine, training.execution(), training.options())[0]
    played = Agent(learner.last(), training.options()).play(machine, jobs, training.execution())
    return {
        "episodes": [row["episodes"] for row in rows],
        "energy": [-row["mean_return"] for row in rows],
        "shares": [[row[SHARE + name] for name in training.options().actions] for row in rows],
        "policies": list(training.options().actions),
        "alone": alone.tolist(),
        "played": played.schedule.energy_j,
        "named": dict(played.shares),
    }


def _convergence_numbers(records: Records) -> Iterator[Number]:
    ends: list[Number] = []
    for piece, record in records.items():
        of_piece = [Number(piece, column, value) for column, value in _findings(record).items()]
        yield from of_piece
        ends += of_piece
        shares = smoothed_shares(np.array(record["shares"]))
        for number, policy in enumerate(record["policies"]):
            for at in evenly(len(shares), POINTS):
                column = f"share at episode {record['episodes'][at]:.0f}"
                yield Number(f"{piece}, {policy}", column, float(shares[at, number]))
    yield from means_over(ends, lambda row: "all seeds")


def smoothed_shares(shares: FloatArray) -> FloatArray:
    """Return shares, each averaged over the last `WINDOW` updates, shape ``(U, A)``."""
    sums = np.concatenate((np.zeros((1, shares.shape[1])), shares.cumsum(axis=0)))
    last = np.arange(1, len(shares) + 1)
    first = np.maximum(last - WINDOW, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, np.newaxis])


def favoured_from(shares: FloatArray) -> int | None:
    """Return the first update from which one policy is favoured until the end; None if none is."""
    smoothed = smoothed_shares(shares)
    not_yet = np.flatnonzero(smoothed[:, int(smoothed[-1].argmax())] <= FAVOURED)
    first = int(not_yet[-1]) + 1 if not_yet.size else 0
    return first if first < len(shares) else None


def _findings(record: Mapping[str, Any]) -> dict[str, float | None]:
    shares, best = np.array(record["shares"]), min(record["alone"])
    first = favoured_from(shares)
    energy = np.array(record["energy"]) / best
    return {
        OVER_BEST: record["played"] / best,
        UNTIL: None if first is None else record["episodes"][first],
        SHARE_AT_END: float(smoothed_shares(shares)[-1].max()),
        FIRST_ENERGY: float(energy[:WINDOW].mean()),
        LAST_ENERGY: float(energy[-WINDOW:].mean()),
        **{f"named at the end: {name}": share for name, share in record["named"].items()},
    }


def _agents(number: int, model: ExecutionKind, by: str) -> Artifact:
    return Artifact(
        f"irmasim-figure{number}",
        f"Figure {number} of the IRMaSim paper: the agent's choices while it learns, {by}",
        lambda asked: [f"seed {seed}" for seed in asked.seeds],
        lambda asked, piece: _convergence(asked, piece, model),
        _convergence_numbers,
        ("agent", "entropy"),
    )


TEN = _agents(10, ExecutionKind.BASELINE, "by the baseline model")
ELEVEN = _agents(11, ExecutionKind.CONTENTION, "with contention")
