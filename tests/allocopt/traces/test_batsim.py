"""Workloads of Batsim, old and new: delays, sequences of them, ids, dependencies."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

DELAY, SEQUENCE = "DelayProfile", "SequentialCompositionProfile"


def read(folder: Path, jobs: list[dict[str, Any]], profiles: dict[str, Any]) -> Workload:
    path = folder / "jobs.json"
    common = {"subtime": 0, "res": 1, "walltime": 100}
    path.write_text(json.dumps({"nb_res": 8, "jobs": [{**common, **job} for job in jobs], "profiles": profiles}))
    return read_workload(path)


@pytest.mark.parametrize(("delay", "sequence"), [("delay", "composed"), (DELAY, SEQUENCE)])
def test_a_sequence_of_delays_runs_for_their_sum_as_often_as_it_repeats(
    tmp_path: Path, delay: str, sequence: str
) -> None:
    profiles = {
        "a": {"type": delay, "delay": 10},
        "b": {"type": delay, "delay": 2.5},
        "once": {"type": sequence, "seq": ["a", "b"]},
        "thrice": {"type": sequence, "seq": ["once", "b"], "repeat": 3},
    }
    made = read(tmp_path, [{"id": name, "profile": name} for name in profiles], profiles)
    assert dict(zip(made.names, made.run.tolist(), strict=True)) == {"a": 10, "b": 2.5, "once": 12.5, "thrice": 45}
    assert made.machine_processors == 8


names = st.sampled_from(["p0", "p1", "p2", "p3"])


@given(st.lists(st.tuples(st.lists(names, min_size=1, max_size=3), st.integers(1, 3)), min_size=1, max_size=3))
def test_a_sequence_is_as_long_as_its_parts_or_has_the_type_that_has_no_run_time(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[tuple[list[str], int]]
) -> None:
    profiles: dict[str, Any] = {"p0": {"type": DELAY, "delay": 7}, "p1": {"type": "TraceReplayProfile"}}
    slow: dict[str, float | None] = {"p0": 7.0, "p1": None}
    for number, (parts, repeat) in enumerate(sequences):
        inside = [part if part in slow else "p0" for part in parts]
        runs = [slow[part] for part in inside]
        profiles[f"p{number + 2}"] = {"type": SEQUENCE, "seq": inside, "repeat": repeat}
        slow[f"p{number + 2}"] = None if None in runs else repeat * sum(filter(None, runs))
    made = read(tmp_path_factory.mktemp("batsim"), [{"id": name, "profile": name} for name in profiles], profiles)
    expected = {name: run for name, run in slow.items() if run is not None}
    assert dict(zip(made.names, made.run.tolist(), strict=True)) == expected
    without = len(slow) - len(expected)
    assert made.dropped == (("profile type TraceReplayProfile has no fixed run time", without),)


def test_a_sequence_of_batsim_1_repeats_as_nb_says(tmp_path: Path) -> None:
    profiles = {"d": {"type": "delay", "delay": 5}, "s": {"type": "composed", "nb": 3, "seq": ["d", "d"]}}
    assert read(tmp_path, [{"id": 1, "profile": "s"}], profiles).run.tolist() == [30.0]


def test_a_sequence_that_holds_itself_is_damaged(tmp_path: Path) -> None:
    profiles = {"s": {"type": SEQUENCE, "seq": ["s"]}, "d": {"type": DELAY, "delay": 1}}
    with pytest.raises(BadFileError, match="profile 's': seq: nests more than 50 sequences, or contains itself"):
        read(tmp_path, [{"id": "1", "profile": "s"}], profiles)
    assert len(read(tmp_path, [{"id": "1", "profile": "s"}, {"id": "2", "profile": "d"}], profiles)) == 1


def test_texts_are_names_and_dependencies_are_preceding_jobs(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "1-late", "profile": "d"},
        {"id": "w0!7", "profile": "d", "dependencies": ["1-late"]},
        {"id": 8, "profile": "d", "dependencies": ["1-late", "w0!7"], "extra_data": {"a": 1}},
        {"id": "9", "profile": "d", "dependencies": ["gone"]},
    ]
    made = read(tmp_path, jobs, {"d": {"type": DELAY, "delay": 3}})
    assert made.ids.tolist() == [7, 8, 9, 10]
    assert made.names.tolist() == ["", "", "", "1-late"]
    assert made.preceding.tolist() == [10, -1, -1, -1]
    assert dict(made.repaired) == {
        "dependencies on several jobs not modelled, ignored": 1,
        "extra_data not read": 1,
        "waits for a job that is not in the trace": 1,
    }


@given(st.dictionaries(st.text("abcdef", min_size=4), st.integers() | st.text() | st.none(), max_size=4))
def test_keys_that_are_not_known_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, extra: dict[str, Any]
) -> None:
    folder, profiles = tmp_path_factory.mktemp("extra"), {"d": {"type": DELAY, "delay": 3}}
    extra = {key: value for key, value in extra.items() if not isinstance(value, int) or abs(value) < 2**60}
    plain = read(folder, [{"id": "1", "profile": "d"}], profiles)
    made = read(folder, [{**extra, "id": "1", "profile": "d"}], {"d": {**extra, **profiles["d"]}})
    assert (made.ids.tolist(), made.run.tolist(), made.remarks()) == (plain.ids.tolist(), plain.run.tolist(), [])
