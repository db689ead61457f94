import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allocopt.arrays import IntArray
from allocopt.traces.workload import row_on_a_cycle, without_lost


@st.composite
def chains(draw: st.DrawFn) -> tuple[IntArray, IntArray]:
    """Ids in any order, and preceding jobs of which some are not there."""
    ids = draw(st.lists(st.integers(-5, 9), unique=True, max_size=8))
    preceding = draw(st.lists(st.integers(-5, 9), min_size=len(ids), max_size=len(ids)))
    return np.array(ids, dtype=np.int64), np.array(preceding, dtype=np.int64)


@given(chains())
def test_a_cycle_is_found_where_following_the_chain_comes_back(given: tuple[IntArray, IntArray]) -> None:
    known = given[0].tolist()
    rows = [known.index(job) if job != -1 and job in known else -1 for job in given[1].tolist()]
    circular = []
    for start in range(len(rows)):
        at = rows[start]
        for _ in rows:
            if at in (-1, start):
                break
            at = rows[at]
        if at == start:
            circular.append(start)
    assert row_on_a_cycle(*given) == (min(circular) if circular else None)


@given(chains())
def test_only_jobs_that_are_not_there_are_forgotten(given: tuple[IntArray, IntArray]) -> None:
    ids, preceding = given
    think = np.arange(1.0, len(ids) + 1)
    known = [job != -1 and job in ids for job in preceding.tolist()]
    kept, kept_think, lost = without_lost(ids, preceding, think)
    assert kept.tolist() == [job if there else -1 for job, there in zip(preceding.tolist(), known, strict=True)]
    assert lost == sum(job != -1 and not there for job, there in zip(preceding.tolist(), known, strict=True))
    assert kept_think[np.array(known, dtype=bool)].tolist() == think[np.array(known, dtype=bool)].tolist()
    assert not kept_think[(kept == -1) & (preceding != -1)].any()


def test_a_long_chain_is_no_cycle() -> None:
    ids = np.arange(100_000)
    assert row_on_a_cycle(ids, ids - 1) is None
    assert row_on_a_cycle(ids, np.roll(ids, 1)) == 0
