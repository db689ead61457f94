"""The kind ``placement`` of problems."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocopt.cluster.topology import hop_costs
from allocopt.plural import counted
from allocopt.problems.certificate import Certificate
from allocopt.problems.kind import DATA, AnswerTable, Codec, Generator, ProblemKind, Stage
from allocopt.problems.picture import Holder, Picture, Racks, State
from allocopt.problems.placement.problem import NodeTasks, PlacementProblem, Placements, verify_placements

# Most pairs (jobs times nodes) of a program, which then takes up to about a minute; seconds per pair.
FEW_PAIRS, PROOF_S = 250_000, 2e-4
LEAST_PROOF_S = 0.5  # least useful time of a program, in seconds
FEW_STEPS = 2000  # steps of the search whose solution speeds up the proof after it


class PlacementKind(ProblemKind[PlacementProblem, Placements]):
    """Problems that choose the nodes, shared with other jobs, of each job of a window, and its tasks on each."""

    name = "placement"
    problem, solution = PlacementProblem, Placements
    answer = "placement"
    objective, decimals = "cost", 1
    shipped = ("@placements", DATA / "placements.jsonl")
    verify = staticmethod(verify_placements)

    @property
    def codec(self) -> Codec[PlacementProblem, Placements]:
        from allocopt.problems.placement.files import PlacementCodec

        return PlacementCodec()

    @property
    def certificates(self) -> Mapping[str, type[Certificate[Any]]]:
        from allocopt.problems.placement.certificates import LeafPrices

        return {**super().certificates, LeafPrices.method: LeafPrices}

    @property
    def generators(self) -> Mapping[str, Generator[PlacementProblem]]:
        from allocopt.problems.placement.generate import synthetic_placement

        return {"placement": synthetic_placement}

    def trivial(self, problem: PlacementProblem) -> Placements:
        return Placements(((),) * len(problem.jobs))

    def size_of(self, problem: PlacementProblem) -> str:
        return f"{counted(len(problem.jobs), 'job')}, {counted(problem.size, 'node')}"

    def stages(self, problem: PlacementProblem) -> Sequence[Stage]:
        pairs = len(problem.jobs) * problem.size
        if pairs > FEW_PAIRS:
            return (Stage(("lns", "cons-tres")),)
        # Do not begin a proof if its time is too short to succeed.
        least_s = max(LEAST_PROOF_S, PROOF_S * pairs)
        return Stage(("lns",), None, 0.3, FEW_STEPS), Stage(("highs", "cp-sat", "scip", "lns"), least_s=least_s)

    def remark(self, problem: PlacementProblem, solution: Placements) -> str:
        return f"{sum(not places for places in solution.of_jobs)} of {len(problem.jobs)} jobs left out"

    def table(self, problem: PlacementProblem, solution: Placements | None) -> AnswerTable:
        rows = []
        for job, nodes in zip(problem.jobs, solution.node_sets, strict=True) if solution is not None else ():
            cost = float(hop_costs(problem.topology, problem.hop_cost, [nodes])[0]) if len(nodes) else None
            rows.append((job.id, len(nodes), ", ".join(map(str, nodes.tolist())) or "left out", cost))
        columns = (("job", None), ("nodes", 0), ("which", None), ("hop cost", 1))
        return AnswerTable("Jobs and their nodes", columns, tuple(rows))

    def picture(self, problem: PlacementProblem, solution: Placements | None) -> Picture:
        """Return the nodes by leaf switch, each divided among its jobs by their shares of its free resources."""
        of_jobs: Sequence[Sequence[NodeTasks]] = [()] * len(problem.jobs) if solution is None else solution.of_jobs
        held = [(job.request, places) for job, places in zip(problem.jobs, of_jobs, strict=True)]
        return Picture(
            unit="node",
            racks=Racks.of(problem.topology),
            is_closed=problem.in_use | ~problem.free.any(axis=1),
            closed="in use",
            holders=tuple(Holder(Holder.name("job", job.id)) for job in problem.jobs),
            states=(State.of_places(held, problem.free),),
        )
