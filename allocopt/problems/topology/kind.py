"""The kind ``topology`` of problems."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocopt.cluster.topology import hop_costs
from allocopt.errors import UsageError
from allocopt.plural import counted
from allocopt.problems.base import Strategy
from allocopt.problems.certificate import Certificate
from allocopt.problems.kind import DATA, Codec, Generator, NodeMap, ProblemKind, Stage
from allocopt.problems.topology.problem import Allocation, TopologyProblem, verify_allocation

FEW_JOBS = 12
"""FREE windows of up to this many jobs are usually solved to optimality.

Prices bound larger ones better and faster.
"""

FEW_STEPS = 1000  # steps of the search whose allocation speeds up the proof after it
SIDE_CONSTRAINTS = "placement rules and fragmentation weights"

EXACT_SCAS = ("dp", "lagrangian", "highs")


class TopologyKind(ProblemKind[TopologyProblem, Allocation]):
    """Problems that choose the idle nodes of each job of a window."""

    name = "topology"
    problem, solution = TopologyProblem, Allocation
    answer = "allocation"
    objective, decimals = "hop cost", 1
    strategies = tuple(map(str, Strategy))
    shipped = ("@tiny", DATA / "tiny.jsonl")
    verify, trivial = staticmethod(verify_allocation), staticmethod(Allocation.trivial)

    @property
    def codec(self) -> Codec[TopologyProblem, Allocation]:
        from allocopt.problems.topology.files import TopologyCodec

        return TopologyCodec()

    @property
    def certificates(self) -> Mapping[str, type[Certificate[Any]]]:
        from allocopt.problems.topology.certificates import PartPrices, SizePrices
        from allocopt.problems.topology.second_search import Searched

        return {**super().certificates, **{one.method: one for one in (PartPrices, SizePrices, Searched)}}

    @property
    def generators(self) -> Mapping[str, Generator[TopologyProblem]]:
        from allocopt.problems.topology.generate import drawn_window

        return {"synthetic": drawn_window}

    def misposed(self, problem: TopologyProblem) -> str | None:
        if problem.has_side_constraints and problem.strategy is not Strategy.FREE:
            return f"{SIDE_CONSTRAINTS} are for strategy free, not for {problem.strategy}"
        return None

    def posed(self, problem: TopologyProblem, strategy: str | None) -> TopologyProblem:
        if strategy is None:
            return problem
        if strategy not in self.strategies:
            raise UsageError(f"there is no strategy {strategy!r}; there are scas, dcas and free")
        return problem.with_strategy(strategy)

    def strategy_of(self, problem: TopologyProblem) -> str:
        return str(problem.strategy)

    def size_of(self, problem: TopologyProblem) -> str:
        idle, nodes = len(problem.idle_nodes), counted(problem.topology.size, "node")
        return f"{counted(len(problem.jobs), 'job')}, {idle:,} of {nodes} idle"

    def asked(self, problem: TopologyProblem) -> str:
        return SIDE_CONSTRAINTS if problem.has_side_constraints else str(problem.strategy)

    def stages(self, problem: TopologyProblem) -> Sequence[Stage]:
        # A short search provides a good start for the proof. If the proof runs out of time, less restrictive
        # strategies still give a bound.
        few = len(problem.jobs) <= FEW_JOBS
        if problem.strategy is Strategy.SCAS:
            return Stage(EXACT_SCAS), Stage(("greedy",), "free")
        warm_up = (Stage(("lns",), None, 0.5, FEW_STEPS),) if few else ()
        if problem.strategy is Strategy.DCAS:
            return (
                *warm_up,
                Stage(("dp",), None, 0.7),
                Stage(EXACT_SCAS, "scas", 0.4),
                Stage(("lns", "annealing"), None, 0.7),
                Stage(("prices", "greedy"), "free"),
            )
        proof = (Stage(("exact",)),) if few else ()
        return *warm_up, *proof, Stage(("prices", "exact", "lns", "greedy"))

    def node_map(self, problem: TopologyProblem, solution: Allocation | None) -> NodeMap:
        names, sizes = tuple(job.id for job in problem.jobs), tuple(problem.sizes.tolist())
        held = None if solution is None else solution.nodes
        costs = () if held is None else tuple(hop_costs(problem.topology, problem.hop_cost, held).tolist())
        return NodeMap(problem.topology, problem.idle_nodes, names, sizes, held, costs)
