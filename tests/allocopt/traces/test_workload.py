import pickle
from dataclasses import FrozenInstanceError, replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.request import Request
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.experiments.grids import content_digest
from allocopt.traces.workload import OVERSIZED, PRECEDING_LOST, SURPLUS, Precedence, Workload


def workload(**changes: object) -> Workload:
    values: dict[str, object] = {
        "ids": np.array([3, 1, 2]),
        "submit": np.array([0.0, 5.0, 0.0]),
        "run": np.array([30.0, 10.0, 20.0]),
        "processors": np.array([3, 17, 2]),
        "estimate": np.array([31.0, 11.0, 21.0]),
    }
    return Workload("w", **(values | changes))  # type: ignore[arg-type]


def test_jobs_are_sorted_by_submit_time_then_id_also_on_the_way_to_another_process() -> None:
    given = workload(users=[30, 10, 20], preceding=[2, 3, -1], think_s=[3.5, 1.0, 0.0])
    made = pickle.loads(pickle.dumps(given))
    columns = ("ids", "run", "processors", "estimate", "users", "preceding", "think_s")
    rows = zip(*(getattr(made, column).tolist() for column in columns), strict=True)
    assert list(rows) == [(2, 20, 2, 21, 20, -1, 0), (3, 30, 3, 31, 30, 2, 3.5), (1, 10, 17, 11, 10, 3, 1)]
    assert made.preceding_rows().tolist() == [-1, 0, 1]
    # What is not given is unknown.
    bare = workload()
    assert bare.users.tolist() == bare.preceding.tolist() == bare.preceding_rows().tolist() == [-1, -1, -1]
    assert bare.think_s.tolist() == [0.0, 0.0, 0.0]


def test_a_workload_cannot_be_changed() -> None:
    made = workload()
    with pytest.raises(ValueError, match="read-only"):
        made.run[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        made.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"submit": [0.0, -1.0, 0.0]}, r"job 1: its submit time is -1.0"),
        ({"run": [1.0, 1.0, 0.0]}, r"job 2: its run time is 0.0"),
        ({"run": [1.0, 1.0, np.nan]}, r"job 2: its run time is nan"),
        ({"estimate": [np.inf, 1.0, 1.0]}, r"job 3: its estimate is inf"),
        ({"processors": [1, 0, 1]}, r"job 1: its number of processors is 0"),
        ({"processors": [1, 1.5, 1]}, r"must be integers"),
        ({"ids": [4, 7, 4]}, r"job 4: is given twice"),
        ({"run": [1.0, 1.0]}, r"shapes"),
        ({"users": [1, 1]}, r"shapes"),
        ({"users": [1, 1, -2]}, r"job 2: its user is -2, must be -1 or more"),
        ({"users": [1, 1, 0.5]}, r"its users have dtype float64, must be integers"),
        ({"preceding": [1.5, 1, 1]}, r"its preceding have dtype float64"),
        ({"preceding": [-1, 4, -1]}, r"job 1: its preceding job is 4, there is no such job"),
        ({"preceding": [-1, -1, 2]}, r"job 2: its preceding job is 2, so that it would have to end before it starts"),
        ({"preceding": [2, 2, 3]}, r"job 2: its preceding job is 3, so that it would have to end before"),
        ({"preceding": [-1, 3, -1], "think_s": [0.0, -1.0, 0.0]}, r"job 1: its think time is -1.0, must be not neg"),
        ({"preceding": [-1, 3, -1], "think_s": [0.0, np.nan, 0.0]}, r"job 1: its think time is nan"),
        ({"recorded_start": [0.0, 0.0, np.inf]}, "job 2: its recorded start is inf, must be finite"),
        ({"names": ["a", "b"]}, "shapes"),
        ({"think_s": [4.0, 0.0, 0.0]}, r"job 3: it has a think time of 4.0 s, but no preceding job"),
    ],
)
def test_a_job_out_of_range_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        workload(**changes)


def test_whole_nodes_are_rounded_up() -> None:
    nodes = workload(machine_processors=70).in_nodes(8)
    assert nodes.processors.tolist() == [1, 1, 3]
    assert nodes.machine_processors == 8
    with pytest.raises(UsageError, match="at least 1"):
        workload().in_nodes(0)


def test_oversized_jobs_are_counted() -> None:
    fitting = workload(dropped=(("x", 2),)).fitting(3)
    assert fitting.ids.tolist() == [2, 3]
    assert fitting.dropped == (("x", 2), (OVERSIZED, 1))
    assert fitting.remarks() == ["w: jobs dropped, x: 2", "w: jobs dropped, larger than the machine: 1"]
    assert fitting.fitting(2).dropped == (("x", 2), (OVERSIZED, 2))
    assert workload().fitting(17).remarks() == []


def test_the_first_jobs_are_kept_and_the_others_counted() -> None:
    made = workload().first(2)
    assert made.ids.tolist() == [2, 3]
    assert made.dropped == ((SURPLUS, 1),)
    assert workload().first(3).dropped == ()
    with pytest.raises(UsageError, match="the number of jobs is -1"):
        workload().first(-1)


def test_whoever_waits_for_a_job_that_is_left_out_waits_no_more_and_is_counted() -> None:
    made = workload(users=[30, 10, 20], preceding=[1, -1, 3], think_s=[3.0, 0.0, 2.0])
    for part in (made.first(2), made.fitting(3)):
        assert part.users.tolist() == [20, 30]
        assert part.preceding.tolist() == [3, -1]
        assert part.think_s.tolist() == [2.0, 0.0]
        assert part.repaired == ((PRECEDING_LOST, 1),)
    assert made.in_nodes(2).preceding.tolist() == made.preceding.tolist()
    assert made.first(1).repaired == ((PRECEDING_LOST, 1),)
    assert made.first(2).first(1).repaired == ((PRECEDING_LOST, 2),)


@st.composite
def chains(draw: st.DrawFn) -> Precedence:
    """Draw ids in any order, and preceding jobs of which some are not there."""
    ids = draw(st.lists(st.integers(-5, 9), unique=True, max_size=8))
    preceding = draw(st.lists(st.integers(-5, 9), min_size=len(ids), max_size=len(ids)))
    return Precedence(np.array(ids, np.int64), np.array(preceding, np.int64), np.arange(1.0, len(ids) + 1))


@given(chains())
def test_a_cycle_is_found_where_following_the_chain_comes_back(given: Precedence) -> None:
    known = given.ids.tolist()
    rows = [known.index(job) if job != -1 and job in known else -1 for job in given.preceding.tolist()]
    circular = []
    for start in range(len(rows)):
        at = rows[start]
        for _ in rows:
            if at in (-1, start):
                break
            at = rows[at]
        if at == start:
            circular.append(start)
    assert given.rows_on_cycles().tolist() == circular


@given(chains())
def test_only_jobs_that_are_not_there_are_forgotten(given: Precedence) -> None:
    waits = given.preceding != -1
    known = waits & np.isin(given.preceding, given.ids)
    kept, lost = given.without_lost()
    assert lost == (waits & ~known).sum()
    assert kept.preceding.tolist() == np.where(known, given.preceding, -1).tolist()
    assert kept.think_s.tolist() == np.where(waits & ~known, 0.0, given.think_s).tolist()


def test_a_long_chain_is_no_cycle() -> None:
    ids, think_s = np.arange(100_000), np.zeros(100_000)
    assert Precedence(ids, ids - 1, think_s).rows_on_cycles().tolist() == []
    assert Precedence(ids, np.roll(ids, 1), think_s).rows_on_cycles().tolist() == ids.tolist()


_COLUMNS_OF_THE_RECORD = ("names", "requests", "recorded_start", "recorded_nodes")


@st.composite
def recorded(draw: st.DrawFn) -> Workload:
    """Draw a workload of which some jobs have a name, a request, a start and nodes."""
    jobs = draw(st.integers(1, 8))
    requests = st.none() | st.builds(Request, tasks=st.integers(1, 9), partition=st.none() | st.just("gpu"))
    submit = np.array(draw(st.lists(st.integers(0, 9), min_size=jobs, max_size=jobs)), np.float64)
    columns = [
        np.array([draw(some) for _ in range(jobs)] + [None], dtype=object)[:-1]
        for some in (st.sampled_from(["", "a-1", "b"]), requests, st.sampled_from(["", "n[1-3]", "n7"]))
    ]
    names, requested, nodes = columns
    start = submit + np.array([draw(st.just(np.nan) | st.integers(0, 9)) for _ in range(jobs)])
    ones = np.ones(jobs)
    return Workload(
        *("r", np.array(draw(st.permutations(range(jobs)))), submit, ones, np.full(jobs, 2), ones),
        names=names,
        requests=requested,
        recorded_start=start,
        recorded_nodes=nodes,
    )


def record_of(made: Workload) -> dict[int, tuple[object, ...]]:
    """Return of each job its name, request, recorded wait and nodes."""
    wait = np.nan_to_num(made.recorded_start - made.submit, nan=-1.0).tolist()
    rows = zip(made.names, made.requests, wait, made.recorded_nodes, strict=True)
    return dict(zip(made.ids.tolist(), rows, strict=True))


@given(recorded(), st.integers(0, 8), st.data())
def test_jobs_keep_their_record_in_every_part_of_a_workload(made: Workload, jobs: int, data: st.DataObject) -> None:
    every = record_of(made)
    rows = np.array(data.draw(st.lists(st.integers(0, len(made) - 1), unique=True, min_size=1)))
    begin = float(made.submit[rows].min())
    parts = [made.first(jobs), made.fitting(2), made.in_nodes(2), made.subset(rows, begin), made.subset(slice(1, 4))]
    for part in (*parts, pickle.loads(pickle.dumps(made))):
        assert record_of(part) == {job: every[job] for job in part.ids.tolist()}
    assert not any(getattr(parts[0], column).flags.writeable for column in _COLUMNS_OF_THE_RECORD)
    assert len(made.fitting(1)) == 0


@given(recorded(), recorded())
def test_workloads_have_one_digest_if_and_only_if_their_records_are_equal(one: Workload, two: Workload) -> None:
    assert content_digest(one) == content_digest(pickle.loads(pickle.dumps(one)))
    two = replace(one, **{name: np.resize(getattr(two, name), len(one)) for name in _COLUMNS_OF_THE_RECORD})
    assert (content_digest(one) == content_digest(two)) == (record_of(one) == record_of(two))


def test_a_workload_without_a_record_has_the_digest_of_its_other_columns() -> None:
    columns = ("ids", "processors", "users", "preceding", "executables", "submit", "run", "estimate", "think_s")
    made, jobs = workload(), sha256()
    for column in columns:
        jobs.update(getattr(made, column).tobytes())
    assert content_digest(made) == jobs.hexdigest()
    assert content_digest(replace(made, recorded_start=np.array([np.nan, 7.0, np.nan]))) != jobs.hexdigest()
