"""Which rows are runs of jobs: states, ends, ids that come again."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.traces.jobs import has_ended
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

HEAD = "JobID|State|Submit|Start|End|Elapsed|NNodes\n"
RUN = "2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:10|00:01:00|2"
AGAIN = ["REQUEUED", "RESIZING", "PREEMPTED", "NODE_FAIL"]


def read(folder: Path, *rows: str, head: str = HEAD) -> Workload:
    path = folder / "jobs.txt"
    path.write_text(head + "\n".join(rows))
    return read_workload(path)


@pytest.mark.parametrize("state", [*AGAIN, "COMPLETED", "CANCELLED by 7", "TIMEOUT", "OUT_OF_ME+", "SOMETHING_NEW"])
def test_a_row_with_an_end_is_a_run(tmp_path: Path, state: str) -> None:
    made = read(tmp_path, f"7|{state}|{RUN}")
    assert (made.ids.tolist(), made.run.tolist(), made.dropped) == ([7], [60], ())


@pytest.mark.parametrize("state", ["REQUEUED", "RESIZING", "SOMETHING_NEW", "RUNNING", "PENDING", "SUSPENDED"])
def test_a_row_without_an_end_has_not_ended(tmp_path: Path, state: str) -> None:
    row = f"8|{state}|2026-01-01T00:00:00|2026-01-01T00:00:10|Unknown|00:00:00|2"
    assert read(tmp_path, f"7|COMPLETED|{RUN}", row).dropped == (("not ended", 1),)


@pytest.mark.parametrize("start", ["None", "Unknown", ""])
def test_a_job_that_never_started_is_counted_as_such(tmp_path: Path, start: str) -> None:
    row = f"8|CANCELLED by 3|2026-01-01T00:00:00|{start}|2026-01-01T00:00:20|00:00:00|2"
    assert read(tmp_path, f"7|COMPLETED|{RUN}", row).dropped == (("never started", 1),)


def test_runs_of_the_same_job_are_all_kept_and_counted(tmp_path: Path) -> None:
    made = read(tmp_path, *(f"{job}|{state}|{RUN}" for job, state in zip([7, 7, 9, 7], [*AGAIN], strict=True)))
    assert made.ids.tolist() == [7, 9, 10, 11]
    assert made.names.tolist() == ["", "", "7", "7"]
    assert made.repaired == (("no time limit, run time used", 4), ("id used by an earlier job, given a new number", 2))


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([*AGAIN, "COMPLETED", "RUNNING"])), min_size=1))
def test_every_row_is_a_job_or_counted(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    # A last row keeps the file from holding no jobs.
    lines = [f"{job}|{state}|{RUN}" for job, state in [*rows, (9, "COMPLETED")]]
    made = read(tmp_path_factory.mktemp("states"), *lines)
    live = sum(state == "RUNNING" for _, state in rows)
    assert len(made) == len(lines) - live
    assert dict(made.dropped) == ({"not ended": live} if live else {})
    assert len(set(made.ids.tolist())) == len(made)


@given(st.sampled_from([*AGAIN, "FAILED", "", "X"]), st.floats(0, 1e9))
def test_a_known_end_ends_a_run_in_any_state_but_a_live_one(state: str, end_s: float) -> None:
    assert has_ended(state, end_s, math.nan)
    for live in ("RUNNING", "PENDING", "suspended", "PD", "R"):
        assert not has_ended(live, end_s, 5.0)


def test_a_table_without_ends_takes_a_positive_run_time_for_a_run(tmp_path: Path) -> None:
    rows = ["1|REQUEUED|0|60|2", "2|REQUEUED|0|0|2", "3|COMPLETED|5|7|1"]
    made = read(tmp_path, *rows, head="JobID|State|Submit|Elapsed|NNodes\n")
    assert made.ids.tolist() == [1, 3]
    assert made.dropped == (("not ended", 1),)


DATABASE = (
    "id_job,id_user,nodes_alloc,nodelist,cpus_req,mem_req,partition,state,timelimit,time_submit,time_start,time_end,"
    "tres_alloc,tres_req\n"
)
OF_CORE = 2**63 + 2000
ROWS = [
    f"5,70,2,\"['a1', 'a2']\",8,{OF_CORE},p,3,60,1700000000,1700000010,1700000070,\"1=16,2=32000,4=2,1001=4,1003=4\",",
    '6,71,1,,4,4000,p,6,4294967295,1700000001,1700000011,1700000071,"1=4,2=4000,4=1",',
    '7,71,1,,4,4000,p,5,4294967294,1700000001,1700000011,1700000071,"1=4,2=4000,4=1,1009=1",',
    '8,71,0,,4,4000,p,4,10,1700000001,0,1700000071,,"1=4"',
    '9,71,1,,4,4000,p,1,10,1700000001,1700000011,0,"1=4,4=1",',
]


def test_a_dump_of_slurms_database_is_read_by_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "job_table.csv"
    path.write_text(DATABASE + "\n".join(ROWS))
    made = read_workload(path)
    assert made.ids.tolist() == [5, 6]
    assert made.users.tolist() == [70, 71]
    assert made.estimate.tolist() == [3600, 60]
    assert made.recorded_nodes.tolist() == ["a1,a2", ""]
    first, second = made.requests
    assert (first.memory_per_core_mib, first.gpus_per_node, first.tasks) == (2000, (("1003", 2.0),), 16)
    assert (second.memory_per_node_mib, second.gpus_per_node) == (4000, ())
    assert dict(made.dropped) == {
        "asks for TRES/1009, which is not modelled": 1,
        "never started": 1,
        "not ended": 1,
    }
    assert dict(made.repaired) == {"no time limit, run time used": 1, "resource 1003 taken for a type of GPU": 1}
    (tmp_path / "mapping.toml").write_text('[tres]\n1003 = "gres/gpu:volta"\n1009 = "fs/scratch"\n')
    named = read_workload(path, str(tmp_path / "mapping.toml"))
    assert named.ids.tolist() == [5, 6, 7]
    assert named.requests[0].gpus_per_node == (("volta", 2.0),)


def test_states_that_squeue_prints_in_short_are_known(tmp_path: Path) -> None:
    times = "2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|2"
    rows = [f"{job}|{times}|{state}" for job, state in enumerate(("CD", "R", "PD", "CG", "TO"), 1)]
    (tmp_path / "jobs.txt").write_text("\n".join(["JOBID|SUBMIT_TIME|START_TIME|END_TIME|NODES|ST", *rows]))
    made = read_workload(tmp_path / "jobs.txt")
    assert (made.ids.tolist(), dict(made.dropped)) == ([1, 4, 5], {"not ended": 2})
