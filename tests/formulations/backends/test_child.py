from typing import cast

import pytest
from support.windows import paper_window

from allocopt.formulations.backends.program import Outcome, Request
from allocopt.formulations.backends.solver import _BackEndDiedError, _ChildPool
from allocopt.formulations.topology.integer import Pack, Paper
from allocopt.problems.base import Strategy
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget, Clock


def clock() -> Clock:
    """Give a child a minute from now."""
    return Budget(60.0).start()


def easy() -> Request:
    problem = paper_window(5, Strategy.SCAS)
    return Request(Pack(problem, Blocks.of(problem)).program(), 60.0)


def hard() -> Request:
    problem = paper_window(3, Strategy.SCAS)
    return Request(Paper(problem, Blocks.of(problem)).program(), 60.0)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "package"), [("scip", "PySCIPOpt"), ("highs", "SciPy"), ("cp_sat", "OR-Tools")])
def test_a_child_says_its_version_and_answers_until_the_outcome(module: str, package: str) -> None:
    pool = _ChildPool(module)
    with pool.child() as child:
        assert child.wait_until_ready(clock())
        *_, outcome = child.solve(easy(), clock(), 0.0)
    assert isinstance(outcome, Outcome)
    assert outcome.is_proved
    assert pool.version.startswith(package)


@pytest.mark.slow
def test_a_child_that_has_answered_is_lent_again_and_one_that_has_not_is_killed() -> None:
    pool = _ChildPool("scip")
    with pool.child() as child:
        first = child
        assert child.wait_until_ready(clock())
    with pool.child() as child:
        assert child is first
        next(child.solve(hard(), clock(), 0.0))
    with pool.child() as child:
        assert child is not first


def test_two_solves_at_a_time_have_a_child_each() -> None:
    pool = _ChildPool("scip")
    with pool.child() as one, pool.child() as other:
        assert one is not other


@pytest.mark.slow
def test_neither_a_back_end_that_cannot_start_nor_a_request_that_it_cannot_digest_hangs() -> None:
    missing = pytest.raises(_BackEndDiedError, match="'missing' ended with exit code 1")
    with _ChildPool("missing").child() as child, missing:
        child.wait_until_ready(clock())
    with _ChildPool("scip").child() as child:
        assert child.wait_until_ready(clock())
        with pytest.raises(_BackEndDiedError, match="in a solve"):
            list(child.solve(cast(Request, "no request"), clock(), 0.0))
