"""``allocopt relocate`` on the files of a Slurm cluster: a plan for people, as JSON, and as commands."""

import json
from pathlib import Path

import pytest
from support.program import Run

from allocopt.problems.instances import read_problems

CONF = """ClusterName=four
NodeName=n[0-7] CPUs=8 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE
"""
TOPOLOGY = "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=top Switches=a,b\n"


def job(number: int, nodes: str, count: int, requeue: int = 1, state: str = "RUNNING") -> str:
    where = f"NodeList={nodes}" if nodes else "NodeList="
    reason = "None" if state == "RUNNING" else "Resources"
    return (
        f"JobId={number} JobName=j UserId=u(1) Priority=10 JobState={state} Reason={reason} Requeue={requeue}"
        f" BatchFlag=1 Partition=main {where} NumNodes={count} NumCPUs={8 * count} NumTasks={count} CPUs/Task=1"
        " OverSubscribe=NO\n\n"
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "slurm.conf").write_text(CONF, encoding="utf-8")
    (tmp_path / "topology.conf").write_text(TOPOLOGY, encoding="utf-8")
    # Two nodes of rack a have a job that may be queued again, one of rack b has a job that must not stop.
    jobs = job(1, "n[0-1]", 2) + job(2, "n4", 1, requeue=0) + job(7, "", 4, state="PENDING")
    (tmp_path / "jobs.txt").write_text(jobs, encoding="utf-8")
    return tmp_path


def files(site: Path) -> list[object]:
    return ["relocate", f"{site}/slurm.conf,{site}/topology.conf", "--queue", site / "jobs.txt"]


def test_a_job_moves_out_of_the_rack_that_a_gang_needs(run: Run, site: Path) -> None:
    answer = run(*files(site), "--start", "7", "--within", "leaf")
    assert answer.code == 0, answer.err
    assert "0 jobs stop, 1 move, 1 of 1 gangs start; cost 1, no other answer is cheaper" in answer.out
    steps = [line for line in answer.out.splitlines() if line.startswith("| ") and ("move" in line or "start" in line)]
    assert [cell.strip() for cell in steps[0].split("|")][2:4] == ["move", "1"]
    assert "n[0-3]" in steps[1]


def test_the_commands_hold_a_job_before_they_give_it_new_nodes(run: Run, site: Path) -> None:
    lines = run(*files(site), "--start", "7", "--within", "leaf", "--commands").out.splitlines()
    assert lines[0] == "scontrol requeuehold 1"
    assert lines[1].startswith("scontrol update JobId=1 ReqNodeList=n")
    assert lines[2] == "scontrol release 1"
    assert lines[3] == "scontrol update JobId=7 ReqNodeList=n[0-3]"


def test_racks_are_freed_and_nodes_drained_at_once(run: Run, site: Path) -> None:
    answer = run(*files(site), "--free-racks", "1", "--size", "3", "--drain", "n1", "--json")
    found = json.loads(answer.out)
    assert found["status"] == "OPTIMAL"
    assert list(found["moved"]) == ["1"]
    assert "free-racks" in found["started"]
    assert not any("free-racks" in line for line in found["commands"])


def test_who_stands_in_the_way_is_named_where_nothing_helps(run: Run, site: Path) -> None:
    answer = run(*files(site), "--drain", "n[3-4]")
    assert answer.code == 4
    fault = "no set of jobs that may stop or move makes room, which is proved"
    assert f"{fault}; the fewest jobs that would have to stop as well, 1: 2" in answer.err
    answer = run(*files(site), "--free-racks", "1", "--size", "5")
    assert f"{fault}; even if every job stopped, what is asked for would not fit" in answer.err


def test_the_problem_is_written_for_other_solvers(run: Run, site: Path) -> None:
    out = site / "p.json"
    run(*files(site), "--start", "7", "--instance", out, "--within", "1")
    (problem,) = read_problems(out)
    assert problem.kind == "relocation"
    assert run("solve", out, "--solver", "highs").out.split()[3] == "OPTIMAL"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "nothing is asked for: give --start, --drain or --free-racks"),
        (["--start", "9"], "--start 9: no job of that id waits"),
        (["--drain", "x1"], "--drain x1: there is no node 'x1'"),
        (["--free-racks", "1"], "--free-racks needs --size"),
        (["--start", "7", "--within", "room"], "--within"),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_line(run: Run, site: Path, words: list[str], fault: str) -> None:
    answer = run(*files(site), *words)
    assert answer.code == 2
    assert fault in answer.err.splitlines()[-1]


def test_jobs_whose_nodes_the_files_do_not_have_are_counted(run: Run, site: Path) -> None:
    with (site / "jobs.txt").open("a", encoding="utf-8") as file:
        file.write(job(3, "other1", 1) + job(4, "", 1) + job(5, "n5", 1))
    answer = run(*files(site), "--drain", "n0")
    assert "running jobs of which no node is in the cluster's files, left out: 1" in answer.err
    assert "running jobs whose nodes are not given, left out: 1" in answer.err
