"""The Grid Workload Format."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload

REST = "1 {user} G1 X1 Q1 P1 O1 L1 UNITARY -1 -1 -1 -1 -1 -1 -1 -1 V1 PR1"


def line(job: int, submit: int, wait: int, run: int, used: int, asked: int, limit: int, user: str = "U1") -> str:
    return f"{job} {submit} {wait} {run} {used} -1 -1 {asked} {limit} -1 {REST.format(user=user)}\n"


@pytest.mark.parametrize("name", ["das2.gwf", "trace.txt", "das2.gwf.txt"])
def test_a_line_of_gwf_is_a_job(tmp_path: Path, name: str) -> None:
    text = "# Grid Workload Format\n# JobID SubmitTime WaitTime\n\n" + line(1, 1_136_070_024, 203, 48, 1, -1, -1)
    text += line(2, 1_136_070_690, -1, 2, -1, 4, 100, "U2") + line(3, 1_136_070_700, 5, -1, 4, 4, 100)
    text += line(4, 1_136_070_701, -1, -1, 4, 4, 100) + line(5, 1_136_070_702, 0, 9, -1, -1, 100)
    (tmp_path / name).write_text(text)
    made = read_workload(tmp_path / name)
    assert (made.ids.tolist(), made.processors.tolist(), made.run.tolist()) == ([1, 2], [1, 4], [48.0, 2.0])
    assert (made.submit.tolist(), made.estimate.tolist()) == ([0.0, 666.0], [48.0, 100.0])
    assert made.recorded_start[0] == 203.0
    assert made.user_names.tolist() == ["U1", "U2"]
    assert dict(made.dropped) == {
        "run time unknown": 1,
        "never started": 1,
        "number of processors not positive": 1,
    }


def test_a_damaged_line_of_gwf_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gwf").write_text(f"# GWF\n{line(1, 5, 0, 1, 1, 1, 1)}2 soon 0 1\n")
    assert read_workload(tmp_path / "a.gwf").dropped == (("damaged (line 3: has 4 columns, must have 29)", 1),)
    (tmp_path / "b.gwf").write_text("# GWF\n")
    with pytest.raises(BadFileError, match="the file holds no jobs"):
        read_workload(tmp_path / "b.gwf")
