"""What every installed solver keeps to, of every kind, under every strategy it takes, on every small problem."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.brute_force import optimum
from support.coallocations import best_value as best_coallocation
from support.knapsacks import best_value as best_selection
from support.placements import best_cost
from support.relocations import best_relocation
from support.windows import paper_window, resequenced, tiny_window, window, with_jobs

from allocopt.cluster.options import FatTreeOptions
from allocopt.cluster.topology import FatTree
from allocopt.errors import MissingPackageError, UsageError
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.certificate import Stated
from allocopt.problems.coallocation.generate import synthetic_coallocation
from allocopt.problems.instances import read_instances
from allocopt.problems.knapsack import Reward
from allocopt.problems.knapsack.generate import synthetic_knapsack
from allocopt.problems.placement.generate import synthetic_placement
from allocopt.problems.relocation.generate import synthetic_relocation
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.second_search import Searched
from allocopt.solving.budget import Budget
from allocopt.solving.certify import check_bound
from allocopt.solving.contract import ContractCheck, contract_checks
from allocopt.solving.protocol import Promise, Solver, get_solver, solver_names
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result

pytestmark = pytest.mark.slow

FOREIGN = frozenset({"cp-sat", "highs", "scip", "scip-paper"})
"""Solvers whose search is another package's: a seed fixes their objective, not their solution."""

SLOW = frozenset({"cp-sat", "csp", "scip-paper"})
"""Solvers that take long for windows of the paper's size."""

ENOUGH_S = 60.0
"""Time in which every exact solver proves a small problem."""

BEST: dict[str, Callable[[Any], float]] = {
    "topology": optimum,
    "knapsack": best_selection,
    "coallocation": best_coallocation,
    "placement": best_cost,
    "relocation": best_relocation,
}
"""The kinds, and what finds the optimum of each by looking at every solution."""

Key = tuple[str, str]
"""Kind and name of a solver."""


def installed() -> dict[Key, Solver]:
    """Return all solvers that can run here."""
    solvers = {}
    for kind in BEST:
        for name in solver_names(kind):
            with suppress(MissingPackageError):
                solver = get_solver(name, None, kind)
                if solver.is_available():
                    solvers[kind, name] = solver
    return solvers


SOLVERS = installed()
WINDOWS = tuple(read_instances([Path("@tiny")]))
OTHERS = tuple(read_instances([Path("@knapsacks"), Path("@coallocations"), Path("@placements"), Path("@relocations")]))
SMALL = (*WINDOWS, tiny_window(0), *OTHERS)
FEW = (
    WINDOWS[0],
    *(problem for problem in OTHERS if problem.name in ("tiny-means", "tiny-one-guest", "tiny-shared", "tiny-move")),
)
PAPER = tuple(paper_window(seed) for seed in range(2))
LARGER: tuple[Problem, ...] = (
    *PAPER,
    *(
        synthetic_knapsack(f"{reward}-{slots}", np.random.default_rng(seed), 300, 20, reward.value, slots=slots)
        for seed, (reward, slots) in enumerate([(reward, slots) for reward in Reward for slots in (0, 3)])
    ),
    *(synthetic_coallocation(f"guests-{most}", np.random.default_rng(most), 8, 6, max_guests=most) for most in (1, 3)),
    synthetic_placement("shared", np.random.default_rng(2), 8, 0.5, 0.5, FatTreeOptions(2, 2, 3)),
    synthetic_relocation(
        "racks", np.random.default_rng(3), FatTreeOptions(2, 3, 8), movable=0.5, size=8, wait_cost=20.0
    ),
)


def is_tiny(problem: Problem) -> bool:
    """Whether there are few enough solutions to look at all of them."""
    return problem in OTHERS or (isinstance(problem, TopologyProblem) and len(problem.idle_nodes) <= 10)


def strategies_of(problem: Problem) -> Sequence[Problem]:
    """Return the problem under every strategy of its kind."""
    return [problem.with_strategy(one) for one in Strategy] if isinstance(problem, TopologyProblem) else [problem]


def takes(key: Key, problem: Problem) -> bool:
    """Whether a solver takes a problem of its kind and size, in a time that a test has."""
    solver = SOLVERS[key]
    if problem.kind != key[0] or (key[1] in SLOW and problem.name.startswith("paper-")):
        return False
    return solver.takes(problem) and solver.refusal(problem) is None


def cases(problems: Sequence[Problem], promise: Promise | None = None) -> Sequence[object]:
    """All solvers (with a promise) under all their strategies on all problems that they take."""
    return [
        pytest.param(key, asked, id=f"{key[1]}-{getattr(asked, 'strategy', key[0])}-{asked.name}")
        for key, solver in SOLVERS.items()
        for problem in problems
        for asked in strategies_of(problem)
        if (promise is None or promise in solver.capabilities.promises) and takes(key, asked)
    ]


def solved(key: Key, problem: Problem, budget: Budget = Budget(ENOUGH_S), seed: int = 0) -> Result:  # noqa: B008
    result = SOLVERS[key].solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@cache
def answer(key: Key, problem: Problem) -> Result:
    """Solve with seed 0 and time to end, once."""
    return solved(key, problem)


@cache
def best_of_all(problem: Problem) -> float:
    return BEST[problem.kind](problem)


def excess(problem: Problem, value: float, other: float) -> float:
    """By how much a value is worse than another one."""
    return value - other if problem.sense == "min" else other - value


def contract() -> list[ContractCheck]:
    """Return claims about all solvers: those about answers, promises and limits on all problems, others on a few."""
    checks = [check for solver in SOLVERS.values() for check in contract_checks(solver, (*SMALL, *LARGER))]
    few = {problem.name for problem in (*FEW, *PAPER[:1])}
    return [
        check
        for check in checks
        if takes((check.problem.kind, check.solver.name), check.problem)
        and (check.problem.name in few or check.claim.startswith(("the answer", "promises", "a limit")))
    ]


@pytest.mark.parametrize("check", contract(), ids=str)
def test_every_solver_keeps_to_the_contract_that_others_run(check: ContractCheck) -> None:
    check()


@pytest.mark.parametrize(("key", "problem"), cases([problem for problem in SMALL if is_tiny(problem)]))
def test_the_optimum_of_brute_force_lies_between_bound_and_objective(key: Key, problem: Problem) -> None:
    result, best = answer(key, problem), best_of_all(problem)
    slack = 1e-9 * (1 + abs(best))
    assert result.objective is not None
    assert excess(problem, result.objective, best) >= -slack
    assert result.bound is None or excess(problem, best, result.bound) >= -slack
    if Promise.EXACT in SOLVERS[key].capabilities.promises:
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("key", "problem"), cases((*SMALL, *LARGER)))
def test_every_bound_has_a_certificate_that_proves_it(key: Key, problem: Problem) -> None:
    result = answer(key, problem)
    if result.bound is None:
        assert result.proof == ""
        return
    assert result.certificate is not None
    if math.isfinite(result.certificate.seconds(problem)):
        check_bound(problem, result.certificate, result.bound)
    else:
        assert isinstance(result.certificate, Stated | Searched)


@pytest.mark.parametrize("problem", SMALL + LARGER, ids=lambda problem: problem.name)
def test_all_exact_solvers_agree(problem: Problem) -> None:
    most = 0
    for asked in strategies_of(problem):
        exact = [key for key in SOLVERS if Promise.EXACT in SOLVERS[key].capabilities.promises and takes(key, asked)]
        results = [answer(key, asked) for key in exact]
        most = max(most, len(results))
        assert {result.status for result in results} <= {Status.OPTIMAL}
        objectives = [result.objective for result in results]
        assert objectives == pytest.approx(objectives[:1] * len(objectives), rel=1e-9)
    # Some strategies of deep trees are beyond all of them, but never all strategies.
    assert most > 1


@pytest.mark.parametrize(("key", "problem"), cases((*FEW, *LARGER[:3]), Promise.EXACT))
@pytest.mark.parametrize("gap", [0.5, 0.02])
def test_an_exact_solver_stops_at_the_gap_asked_for_or_with_a_proof(key: Key, problem: Problem, gap: float) -> None:
    result = solved(key, problem, Budget(ENOUGH_S, gap=gap))
    assert result.gap is not None
    assert result.gap <= gap
    assert result.stopped_by is (StopReason.PROVED if result.gap <= EQUAL_RELATIVE else StopReason.GAP)
    assert result.status is (Status.OPTIMAL if result.stopped_by is StopReason.PROVED else Status.FEASIBLE)


@pytest.mark.parametrize(("key", "problem"), cases(SMALL + LARGER[:4] + LARGER[-1:]))
def test_the_same_seed_gives_the_same_answer(key: Key, problem: Problem) -> None:
    budget = Budget(iterations=30) if problem.kind == "topology" or key[1] == "lns" else Budget(ENOUGH_S)
    first, again = (solved(key, problem, budget, seed=7) for _ in range(2))
    assert again.objective == pytest.approx(first.objective, rel=1e-9)
    if key[1] not in FOREIGN and (key[1] != "auto" or problem.kind == "topology"):
        assert again.objective == first.objective
        same = [one.solution.as_dict(problem) if key[0] == "topology" else one.solution for one in (first, again)]
        assert same[0] == same[1]
        assert again.bound == first.bound


@pytest.mark.parametrize(("key", "problem"), cases(FEW))
def test_what_a_solver_calls_prints_nothing_on_stdout_either(
    key: Key, problem: Problem, capfd: pytest.CaptureFixture[str]
) -> None:
    solved(key, problem)
    assert capfd.readouterr().out == ""


TINY_AND_PAPER = (*WINDOWS, tiny_window(0), *PAPER)


@pytest.mark.parametrize(("key", "problem"), cases(TINY_AND_PAPER, Promise.EXACT))
@pytest.mark.parametrize("change", ["permuted", "rotated", "reversed"])
def test_permuted_jobs_and_a_rotated_or_reversed_idle_sequence_keep_the_optimum(
    key: Key, problem: TopologyProblem, change: str
) -> None:
    m = len(problem.idle_nodes)
    if change == "permuted":
        order = np.random.default_rng(1).permutation(len(problem.jobs))
        changed = with_jobs(problem, [problem.jobs[job] for job in order])
    else:
        order = np.roll(np.arange(m), m // 3) if change == "rotated" else np.arange(m)[::-1]
        changed = resequenced(problem, order)
    assert solved(key, changed).objective == pytest.approx(answer(key, problem).objective, rel=1e-9)


@pytest.mark.parametrize("problem", TINY_AND_PAPER, ids=lambda problem: problem.name)
@pytest.mark.parametrize("seed", range(3))
def test_relabelling_the_switches_keeps_what_is_proved_of_free(problem: TopologyProblem, seed: int) -> None:
    free, greedy = problem.with_strategy(Strategy.FREE), ("topology", "greedy")
    relabelled = resequenced(free, np.random.default_rng(seed).permutation(len(problem.idle_nodes)))
    assert solved(greedy, relabelled).bound == pytest.approx(solved(greedy, free).bound, rel=1e-9)
    if is_tiny(problem):
        assert optimum(relabelled) == pytest.approx(best_of_all(free), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_an_idle_node_more_never_raises_the_bound_of_free(seed: int) -> None:
    problem, greedy = paper_window(seed), ("topology", "greedy")
    busy = np.setdiff1d(np.arange(1000), problem.idle_nodes)
    more = TopologyProblem(problem.topology, np.append(problem.idle_nodes, busy[seed * 50]), problem.jobs)
    assert solved(greedy, more).bound <= solved(greedy, problem).bound * (1 + 1e-12)  # type: ignore[operator]


def wide(pods: int, racks: int, nodes: int, idle: int, sizes: Sequence[int]) -> TopologyProblem:
    """Return a window on the first nodes of a fat tree."""
    return window(FatTree(pods, racks, nodes), range(idle), sizes)


# At the edge of what each takes: beyond it, with what is said, and the most that is taken, or as much as is quick.
FIFTY = [1000] * 50 + [10]
TABLE, ARCS = "1.32e+07 entries, at most 10,000,000 are supported", "arcs, at most 100,000 are supported"
EDGES: list[tuple[str, Strategy, TopologyProblem, str]] = [
    ("dp", Strategy.SCAS, wide(10, 10, 10, 200, range(1, 17)), TABLE),
    ("dp", Strategy.SCAS, wide(1000, 10, 100, 500_500, range(1, 1001)), "entries"),
    ("dp", Strategy.SCAS, wide(10, 10, 10, 10_000_000 // 2**15, range(1, 16)), "entries"),
    ("dp", Strategy.SCAS, wide(10, 10, 10, 10_000_000 // 2**15 - 1, range(1, 16)), ""),
    ("dp", Strategy.DCAS, wide(100, 10, 10, 9000, [3000, 2000]), "dcas tables"),
    ("csp", Strategy.SCAS, wide(10, 10, 10, 1000, range(2, 40)), ARCS),
    *((name, Strategy.SCAS, wide(100, 100, 10, 100_000, FIFTY), "nonzeros") for name in ("scip", "highs", "cp-sat")),
    ("scip-paper", Strategy.SCAS, wide(100, 100, 10, 100_000, FIFTY), "nonzeros, at most 500,000 are supported"),
    ("lagrangian", Strategy.SCAS, wide(100, 100, 100, 500_000, range(1, 101)), "50,000,000"),
    ("exact", Strategy.FREE, wide(20, 20, 50, 20_000, [1000]), "20,000,000"),
    ("exact", Strategy.FREE, wide(20, 20, 20, 8000, [1] * 8000), "10,000,000"),
    ("prices", Strategy.FREE, wide(1, 101, 10_000, 1_000_001, [2]), "1,000,000"),
    ("prices", Strategy.FREE, wide(2, 20, 5000, 200_000, [15_000, 14_000, 13_000]), "50,000,000"),
    ("greedy", Strategy.FREE, wide(10, 10, 100, 8000, [2400]), "57,600,000"),
    ("greedy", Strategy.FREE, wide(10, 10, 100, 8000, [2083]), ""),
    ("lns", Strategy.FREE, wide(1, 2, 5000, 10_000, [9000, 100]), "nodes of the largest job is 90,000,000"),
    ("lns", Strategy.FREE, wide(1, 2, 5000, 10_000, [4000, 100]), ""),
    ("simanneal", Strategy.FREE, wide(100, 10, 100, 20_001, [2]), "20,001 idle nodes"),
    ("simanneal", Strategy.FREE, wide(100, 10, 100, 20_000, [2]), ""),
    ("best-fit", Strategy.FREE, wide(100, 100, 101, 1_000_001, [1]), "supported are 1,000,000 idle nodes, 20,000 jobs"),
    ("best-fit", Strategy.FREE, wide(100, 100, 101, 30_000, [1] * 20_001), "and 20,001 jobs; supported are"),
]


@pytest.mark.parametrize(("name", "strategy", "problem", "said"), EDGES)
def test_beyond_the_stated_size_a_solver_says_so_at_once_and_up_to_it_takes_all(
    name: str, strategy: Strategy, problem: TopologyProblem, said: str
) -> None:
    refusal = SOLVERS["topology", name].refusal(problem.with_strategy(strategy))
    assert (refusal is None) is (said == "")
    assert said in (refusal or "")
    if said:
        with pytest.raises(UsageError, match="window"):
            solve(problem, strategy=strategy, solver=name)
