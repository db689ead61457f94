"""The text log of Slurm's job completion plugin."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload

LINE = (
    "JobId={job} UserId=ann(1001) GroupId=g(7) Name=a b JobState={state} Partition=main TimeLimit={limit} "
    "StartTime={start} EndTime=2026-01-01T01:00:00 NodeList=n[1-2] NodeCnt=2 ProcCnt=16 WorkDir=/home/a b "
    "ReservationName= Tres=cpu=16,node=2,gres/gpu:a100=4 Account=chem QOS=normal WcKey= Cluster=c "
    "SubmitTime=2026-01-01T00:00:00 EligibleTime=2026-01-01T00:00:00{more} DerivedExitCode=0:0 ExitCode=0:0 \n"
)


def line(job: int, state: str = "COMPLETED", limit: str = "90", start: str = "00:30:00", more: str = "") -> str:
    start = start if start == "Unknown" else f"2026-01-01T{start}"
    return LINE.format(job=job, state=state, limit=limit, start=start, more=more)


def test_a_line_of_the_log_is_a_job_that_has_ended(tmp_path: Path) -> None:
    (tmp_path / "slurm_jobcomp.log").write_text(line(5) + line(6, limit="UNLIMITED", start="00:59:00"))
    made = read_workload(tmp_path / "slurm_jobcomp.log")
    assert (made.ids.tolist(), made.run.tolist()) == ([5, 6], [1800.0, 60.0])
    assert (made.processors.tolist(), made.estimate.tolist()) == ([2, 2], [5400.0, 60.0])
    assert (made.user_names.tolist(), made.accounts.tolist()) == (["ann", "ann"], ["chem", "chem"])
    assert made.recorded_start.tolist() == [1800.0, 3540.0]
    (asked, _) = made.requests
    assert (asked.tasks, asked.gpus_per_node, asked.partition) == (16, (("a100", 2.0),), "main")


def test_jobs_of_the_log_that_never_started_are_counted_and_components_are_known(tmp_path: Path) -> None:
    parts = [line(8 + at, more=f" HetJobId=8 HetJobOffset={at}") for at in range(2)]
    (tmp_path / "log").write_text(line(5, "CANCELLED", start="Unknown") + "".join(parts))
    made = read_workload(tmp_path / "log")
    assert (made.names.tolist(), dict(made.dropped)) == (["8+0", "8+1"], {"never started": 1})


def test_a_damaged_line_of_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(5) + "JobId=6 UserId=ann(10\n")
    assert read_workload(tmp_path / "log").dropped[0][0].startswith("damaged (line 2: is 'JobId=6 UserId=")
    (tmp_path / "log").write_text("JobId=6 UserId=ann(10) GroupId=g(7) Name=x\n")
    with pytest.raises(BadFileError, match=r"line 1: is .*, must be JobId=NUMBER"):
        read_workload(tmp_path / "log")
