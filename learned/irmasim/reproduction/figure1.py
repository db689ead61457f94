"""Figure 1: ten ep.A and ten lu.A on a fast and a slow node, with and without contention.

The paper prints a picture of it; of its text is the penalty of lu.A, up to four times, worse on the fast node. It names
neither the clocks, here the first and the last of Table III, nor what the benchmarks of class A execute. Here that is
what Table IV says of class C, scaled by the sizes that define the classes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.cluster.irmasim import cluster_of
from allocopt.cluster.multicore import Machine
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.npb import TABLE_FOUR
from allocopt.traces.tasks import TaskWorkload

NODES = {3.4: "fast", 1.7: "slow"}
"""The nodes by clock in GHz."""
TIMES = 10
CLASS_A = {"ep": ("ep.C", 2.0**28 / 2.0**32), "lu": ("lu.C", (64 / 162) ** 3)}
"""The benchmark of class C, and the work of class A over its: random numbers of ep, points of lu's grid."""
WORST = {"lu": 4.0}
"""Most times as long as alone, as the paper's text says."""


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


@dataclass(frozen=True, slots=True)
class FigureOneReproduction:
    """Figure 1 of the IRMaSim paper."""

    name: ClassVar[str] = "irmasim-figure1"
    title: ClassVar[str] = "Figure 1 of the IRMaSim paper: ep.A and lu.A on a fast and a slow node"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the models."""
        return [str(kind) for kind in ExecutionKind]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Return where and when each job ran."""
        made = simulate(workload(), machine(), "first-high_gflops", execution=Execution(ExecutionKind(piece)))
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

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the slowdowns by benchmark and node, and the times of all jobs."""
        return [row for model, record in records.items() for row in self._rows(model, dict(record))]

    def _rows(self, model: str, record: dict[str, Any]) -> list[ReproductionRow]:
        """Return the rows of a model."""
        rows = []
        start, end, alone = (np.array(record[name]) for name in ("start", "end", "alone"))
        for benchmark in CLASS_A:
            for node in NODES.values():
                chosen = [
                    at
                    for at, of in enumerate(zip(record["benchmark"], record["node"], strict=True))
                    if of == (benchmark, node)
                ]
                times = ((end - start) / alone)[chosen]
                place = f"{model}: {benchmark}.A, {node} node"
                worst = WORST.get(benchmark) if node == "fast" and model == ExecutionKind.CONTENTION else None
                found = {"mean times as long as alone": None, "most times as long as alone": worst}
                for (column, published), ours in zip(found.items(), (times.mean(), times.max()), strict=True):
                    rows.append(ReproductionRow(self.name, place, column, published, float(ours), None, len(times)))
        for job, node, first, last in zip(record["job"], record["node"], start, end, strict=True):
            for column, time in (("start s", first), ("end s", last)):
                place = f"{model}: job {job}, {node} node"
                rows.append(ReproductionRow(self.name, place, column, None, float(time), None, 1))
        return rows
