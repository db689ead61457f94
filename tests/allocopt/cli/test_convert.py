from pathlib import Path

import pytest
from support.program import Run
from support.workloads import jobs_of

from allocopt.traces.reading import read_workload


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three jobs, of which one has no run time and one no estimate."""
    jobs = [(1, 17, 60, 90), (2, 32, 30, -1), (3, 4, 0, 5), (4, 8, 10, 10)]
    lines = [f"{job} {job} -1 {run} -1 -1 -1 {size} {time}{' -1' * 9}" for job, size, run, time in jobs]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(["; MaxProcs: 64", *lines]))
    return path


@pytest.mark.parametrize("name", ["out.swf.gz", "out.json", "out.json.gz", "out.swf"])
def test_what_was_dropped_and_repaired_is_said(run: Run, log: Path, name: str) -> None:
    out = log.parent / name
    answer = run("convert", log, out)
    assert (answer.code, answer.out) == (0, "")
    assert answer.lines_of_error == [
        "log: jobs dropped, run time not positive: 1",
        "log: jobs repaired, no requested time, run time used: 1",
        f"{out}: jobs written: 3",
    ]
    made = read_workload(out)
    assert (jobs_of(made), made.machine_processors) == (jobs_of(read_workload(log)), 64)


def test_what_the_format_cannot_hold_is_said(run: Run, log: Path) -> None:
    out = log.parent / "out.txt"
    assert run("convert", log, out).lines_of_error[2:] == [
        f"{out}: estimates lost, the format has none: 1",
        f"{out}: size of the machine lost, the format has none: 64",
        f"{out}: jobs written: 3",
    ]
    rows = [(1, 7, -1, -1), (2, 7, 1, 30), (3, -1, 1, 0)]
    lines = [f"{job} 0 -1 9 2 -1 -1 2 9 -1 1 {user}{' -1' * 4} {before} {think}" for job, user, before, think in rows]
    log.write_text("\n".join(["; MaxProcs: 4", *lines]))
    for path in (out, log.parent / "out.json"):
        said = run("convert", log, path).lines_of_error
        assert f"{path}: users lost, the format has none: 2" in said
        assert f"{path}: preceding jobs and think times lost, the format has none: 2" in said


def test_jobs_are_cut_and_counted_in_whole_nodes(run: Run, log: Path) -> None:
    out = log.parent / "out.swf"
    answer = run("convert", log, out, "--max-jobs", "2", "--processors-per-node", "16")
    assert answer.code == 0
    assert "log: jobs dropped, beyond the requested number of jobs: 1" in answer.lines_of_error
    made = read_workload(out)
    assert (made.ids.tolist(), made.processors.tolist(), made.machine_processors) == ([1, 2], [2, 2], 4)
