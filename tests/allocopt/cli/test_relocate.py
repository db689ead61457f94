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
    jobs += job(8, "", 1, state="PENDING").replace("Reason=Resources", "Reason=JobHeldUser")
    (tmp_path / "jobs.txt").write_text(jobs, encoding="utf-8")
    return tmp_path


def files(site: Path) -> list[object]:
    return ["relocate", f"{site}/slurm.conf,{site}/topology.conf", "--queue", site / "jobs.txt"]


def test_a_job_moves_out_of_the_rack_that_a_gang_needs(run: Run, site: Path) -> None:
    answer = run(*files(site), "--start", "7", "--within", "leaf")
    assert answer.code == 0, answer.err
    assert "0 jobs stop, 1 move, 1 of 1 gangs get nodes; cost 1, no plan is cheaper" in answer.out
    steps = [line for line in answer.out.splitlines() if line.startswith("| ") and ("move" in line or "start" in line)]
    assert [cell.strip() for cell in steps[0].split("|")][2:4] == ["move", "1"]
    assert "n[0-3]" in steps[1]


def test_the_commands_hold_a_job_before_they_give_it_new_nodes(run: Run, site: Path) -> None:
    lines = run(*files(site), "--start", "7", "--start", "7", "--within", "leaf", "--commands").out.splitlines()
    assert lines[0] == "scontrol requeuehold 1"
    assert lines[1].startswith("scontrol update JobId=1 ReqNodeList=n")
    assert lines[2] == "scontrol release 1"
    assert lines[3] == "scontrol update JobId=7 ReqNodeList=n[0-3]"


def test_racks_are_freed_and_nodes_drained_at_once(run: Run, site: Path) -> None:
    answer = run(*files(site), "--free-racks", "1", "--size", "3", "--drain", "n1", "--json")
    assert json.loads(answer.out)["commands"][0].startswith("scontrol update NodeName=n1 State=DRAIN")
    found = json.loads(answer.out)
    assert found["status"] == "OPTIMAL"
    assert list(found["moved"]) == ["1"]
    assert "free-racks" in found["started"]
    assert not any("free-racks" in line for line in found["commands"])


def test_who_stands_in_the_way_is_named_where_nothing_helps(run: Run, site: Path) -> None:
    answer = run(*files(site), "--drain", "n[3-4]")
    assert answer.code == 4
    fault = "proved: no choice of stops and moves makes room"
    assert f"{fault}; at least 1 more must stop: 2" in answer.err
    answer = run(*files(site), "--free-racks", "1", "--size", "5")
    assert f"{fault}; even stopping every job would not make enough room" in answer.err


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
        (["--start", "7", "--within", "room"], "--within is 'room', must be a level below the top"),
        (["--start", "7", "--within", "\u00b2"], "--within is '\u00b2', must be a level below the top"),
        (["--drain", "n1", "--within", "leaf"], "--within needs --start"),
        (["--drain", "n1", "--size", "2"], "--size needs --free-racks"),
        (["--free-racks", "2", "--size", "2"], "ask for more than half of the largest rack"),
        (["--start", "8"], "--start 8: the job may not start now, Slurm gives the reason JobHeldUser"),
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
    assert "running jobs without a node in the cluster's files, not counted: 1" in answer.err
    assert "running jobs whose nodes are not given, not counted: 1" in answer.err


def test_nodes_of_a_job_that_cannot_be_read_exactly_are_full_and_stay_so(run: Run, site: Path) -> None:
    # It has licenses, which are not modelled: it stays, and nobody gets its node.
    odd = job(3, "n2", 1).replace(" CPUs/Task=1", " CPUs/Task=1 Licenses=matlab:1")
    with (site / "jobs.txt").open("a", encoding="utf-8") as file:
        file.write(odd)
    answer = run(*files(site), "--start", "7", "--within", "leaf")
    assert answer.code == 4
    assert "running jobs that stay, their nodes taken as full, " in answer.err
    assert "at least 1 more must stop: " in answer.err
    assert run(*files(site), "--drain", "n2").code == 4
    found = json.loads(run(*files(site), "--drain", "n0", "--json").out)
    assert found["moved"] == {"1": "n[3,5]"} or not {"n2"} & set(found["moved"]["1"])


def test_nodes_that_the_cluster_says_are_in_use_are_not_given_away(run: Run, site: Path) -> None:
    nodes = "\n".join(
        f"NodeName=n{number} CPUTot=8 CPUAlloc={8 if number in (0, 1, 4, 6) else 0} RealMemory=1000 AllocMem=0"
        f" State={'ALLOCATED' if number in (0, 1, 4, 6) else 'IDLE'} Partitions=main"
        for number in range(8)
    )
    (site / "nodes.txt").write_text(nodes + "\n", encoding="utf-8")
    (site / "parts.txt").write_text(
        "PartitionName=main Default=YES OverSubscribe=EXCLUSIVE Nodes=n[0-7]\n", encoding="utf-8"
    )
    source = f"{site}/nodes.txt,{site}/parts.txt,{site}/topology.conf"
    words = ["relocate", source, "--queue", site / "jobs.txt", "--drain", "n[0-1]", "--json"]
    answer = run(*words)
    assert answer.code == 0, answer.err
    # Nobody knows who is on n6.
    assert "n6" not in json.loads(answer.out)["moved"]["1"]


def test_two_exclusive_jobs_on_one_node_both_stay(run: Run, site: Path) -> None:
    with (site / "jobs.txt").open("a", encoding="utf-8") as file:
        file.write(job(3, "n1", 1))
    answer = run(*files(site), "--drain", "n0")
    assert answer.code == 4
    assert "running jobs that stay, their nodes taken as full, with unknown resources" in answer.err
    assert run(*files(site), "--drain", "n1").code == 4


def test_a_job_on_a_drained_node_moves_off_it_and_nobody_comes(run: Run, site: Path) -> None:
    nodes = "".join(
        f"NodeName=n{number} CPUTot=8 CPUAlloc={8 if number in (0, 1, 4) else 0} RealMemory=1000 AllocMem=0"
        f" State={'ALLOCATED+DRAIN' if number == 0 else 'IDLE+DRAIN' if number == 2 else 'IDLE'} Partitions=main\n"
        for number in range(8)
    )
    (site / "nodes.txt").write_text(nodes, encoding="utf-8")
    parts = "PartitionName=main Default=YES OverSubscribe=EXCLUSIVE Nodes=n[0-7]\n"
    (site / "parts.txt").write_text(parts, encoding="utf-8")
    source = f"{site}/nodes.txt,{site}/parts.txt,{site}/topology.conf"
    answer = run("relocate", source, "--queue", site / "jobs.txt", "--drain", "n0", "--json")
    assert answer.code == 0, answer.err
    (new,) = json.loads(answer.out)["moved"].values()
    assert "n0" not in new
    assert "n2" not in new


@pytest.mark.parametrize("state", ["COMPLETING", "SUSPENDED"])
def test_a_job_that_is_ending_or_suspended_is_left_where_it_is(run: Run, site: Path, state: str) -> None:
    (site / "jobs.txt").write_text(job(1, "n0", 1).replace("RUNNING", state), encoding="utf-8")
    assert run(*files(site), "--drain", "n0").code == 4
    assert json.loads(run(*files(site), "--drain", "n5", "--json").out)["moved"] == {}


def test_a_record_that_cannot_be_read_keeps_its_nodes_and_ends_no_command(run: Run, site: Path) -> None:
    with (site / "jobs.txt").open("a", encoding="utf-8") as file:
        file.write(job(3, "n6", 1).replace(" CPUs/Task=1", " CPUs/Task=1 MinMemoryNode=lots"))
    answer = run(*files(site), "--drain", "n0", "--json")
    assert answer.code == 0
    assert "running jobs that stay, their nodes taken as full, whose record cannot be read: 1" in answer.err
    assert "n6" not in json.loads(answer.out)["moved"]["1"]


def test_a_rule_that_gives_up_says_so_and_not_that_time_ran_out(run: Run, site: Path) -> None:
    answer = run(*files(site), "--drain", "n[3-4]", "--solver", "best-rack")
    assert "best-rack found no plan; --solver auto searches further" in answer.err


def shared(number: int, nodes: str, count: int, cpus: int, more: str = "") -> str:
    return (
        job(number, nodes, count)
        .replace(f"NumCPUs={8 * count}", f"NumCPUs={cpus}")
        .replace("OverSubscribe=NO", f"OverSubscribe=OK{more}")
    )


@pytest.fixture
def shared_site(site: Path) -> Path:
    conf = CONF.replace(" OverSubscribe=EXCLUSIVE", "") + "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
    (site / "slurm.conf").write_text(conf, encoding="utf-8")
    return site


def test_a_job_keeps_all_cpus_that_slurm_gave_it_not_only_those_it_asked_for(run: Run, shared_site: Path) -> None:
    full = "".join(
        shared(number, f"n{number}", 1, 8, " AllocTRES=cpu=8").replace("Requeue=1", "Requeue=0") for number in range(8)
    )
    waiting = shared(9, "", 1, 7).replace("RUNNING", "PENDING").replace("Reason=None", "Reason=Resources")
    (shared_site / "jobs.txt").write_text(full + waiting.replace("CPUs/Task=1", "CPUs/Task=7"), encoding="utf-8")
    answer = run(*files(shared_site), "--start", "9")
    assert answer.code == 4
    assert "at least 1 more must stop" in answer.err


@pytest.mark.parametrize(("others", "found"), [(0, "moved"), (5, "stopped")])
def test_a_moved_job_keeps_its_number_of_nodes(run: Run, shared_site: Path, others: int, found: str) -> None:
    jobs = shared(1, "n[0-1]", 2, 16, " AllocTRES=cpu=16,node=2").replace("NumTasks=2", "NumTasks=16")
    for number in range(2, 8) if others else ():
        jobs += shared(number, f"n{number}", 1, others, f" AllocTRES=cpu={others}").replace("Requeue=1", "Requeue=0")
    (shared_site / "jobs.txt").write_text(jobs, encoding="utf-8")
    source = node_states(shared_site, [8, 8, *[others] * 6])
    answer = run("relocate", source, "--queue", shared_site / "jobs.txt", "--drain", "n[0-1]", "--json")
    # With 3 free cores a node, its 16 tasks would fit only on six nodes.
    plan = json.loads(answer.out)
    assert list(plan[found]) == ["1"]
    assert found == "stopped" or plan["moved"]["1"] in ("n[2-3]", "n[4-5]", "n[6-7]")


def node_states(site: Path, used: list[int]) -> str:
    """Write the records of nodes with used cores, and return the files of the cluster."""
    nodes = "".join(
        f"NodeName=n{number} CPUTot=8 CPUAlloc={cpus} RealMemory=1000 AllocMem=0 State=MIXED Partitions=main\n"
        for number, cpus in enumerate(used)
    )
    (site / "nodes.txt").write_text(nodes, encoding="utf-8")
    (site / "parts.txt").write_text("PartitionName=main Default=YES Nodes=n[0-7]\n", encoding="utf-8")
    return f"{site}/nodes.txt,{site}/parts.txt,{site}/topology.conf"


def test_nodes_of_a_record_that_may_be_forged_are_in_use(run: Run, shared_site: Path) -> None:
    forged = shared(3, "n2", 1, 1).replace(" OverSubscribe=OK", " OverSubscribe=OK Contiguous=0 Contiguous=1")
    (shared_site / "jobs.txt").write_text(shared(1, "n0", 1, 1) + forged, encoding="utf-8")
    answer = run(*files(shared_site), "--drain", "n2")
    assert answer.code == 4
    assert "may have forged the record: 1" in answer.err


def test_tasks_of_arrays_have_their_own_names_in_commands(run: Run, site: Path) -> None:
    text = job(30, "n[0-1]", 2).replace("JobId=30", "JobId=30 ArrayJobId=30 ArrayTaskId=2")
    (site / "jobs.txt").write_text(text, encoding="utf-8")
    lines = run(*files(site), "--drain", "n0", "--commands").out.splitlines()
    assert lines[1] == "scontrol requeuehold 30_2"
    assert lines[-1] == "scontrol release 30_2"


def test_components_of_a_heterogeneous_job_stay(run: Run, site: Path) -> None:
    text = job(20, "n0", 1).replace("JobId=20", "JobId=20 HetJobId=20 HetJobOffset=0")
    (site / "jobs.txt").write_text(text, encoding="utf-8")
    assert run(*files(site), "--drain", "n0").code == 4


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        (job(7, "", 4, state="PENDING"), "the queue has no running job"),
        (job(1, "n[0-", 1), "the nodes of running job 1 cannot be read"),
        (job(1, "n0", 1) + job(1, "n1", 1), "the queue has two records of running job 1"),
    ],
)
def test_a_queue_that_does_not_say_what_is_free_is_refused(run: Run, site: Path, text: str, fault: str) -> None:
    (site / "jobs.txt").write_text(text, encoding="utf-8")
    answer = run(*files(site), "--drain", "n5")
    assert answer.code in (2, 3)
    assert fault in answer.err or "no running job" in answer.err


def test_jobs_in_json_are_requeued_too(run: Run, site: Path) -> None:
    one = {
        "job_id": 1, "job_state": ["RUNNING"], "partition": "main", "nodes": "n[0-1]", "node_count": 2, "tasks": 2,
        "requeue": True, "batch_flag": True, "cpus_per_task": 1, "shared": ["none"],
    }  # fmt: skip
    (site / "jobs.txt").write_text(json.dumps({"jobs": [one], "meta": {}}), encoding="utf-8")
    answer = run(*files(site), "--drain", "n0", "--json")
    assert answer.code == 0, answer.err
    assert list(json.loads(answer.out)["moved"]) == ["1"]


def test_the_instance_is_not_written_over_a_file_that_is_read(run: Run, site: Path) -> None:
    before = (site / "jobs.txt").read_text(encoding="utf-8")
    assert run(*files(site), "--drain", "n0", "--instance", site / "jobs.txt").code == 2
    assert (site / "jobs.txt").read_text(encoding="utf-8") == before


MAINTENANCE = (
    "ReservationName=maint StartTime=2026-01-01T00:00:00 EndTime=2036-01-01T00:00:00 Nodes={} NodeCnt=1 State=ACTIVE\n"
)


def with_reservation(site: Path, nodes: str) -> list[object]:
    (site / "reservations.txt").write_text(MAINTENANCE.format(nodes), encoding="utf-8")
    source = f"{site}/slurm.conf,{site}/topology.conf,{site}/reservations.txt"
    return ["relocate", source, "--queue", site / "jobs.txt"]


def test_nobody_is_moved_to_reserved_nodes(run: Run, site: Path) -> None:
    answer = run(*with_reservation(site, "n[2-3,5-6]"), "--drain", "n0", "--json")
    assert json.loads(answer.out)["moved"] == {"1": "n[1,7]"}
    assert json.loads(run(*with_reservation(site, "n[2-3,5-7]"), "--drain", "n0", "--json").out)["stopped"] == ["1"]


def test_racks_with_reserved_nodes_are_not_free(run: Run, site: Path) -> None:
    assert run(*with_reservation(site, "n[2-3,5]"), "--free-racks", "1", "--size", "3").code == 4
    assert run(*with_reservation(site, "n3"), "--free-racks", "1", "--size", "3").code == 0


def test_a_job_of_a_reservation_stays_on_its_nodes(run: Run, site: Path) -> None:
    of_maint = job(1, "n[0-1]", 2).replace("OverSubscribe", "Reservation=maint OverSubscribe")
    (site / "jobs.txt").write_text(of_maint, encoding="utf-8")
    found = json.loads(run(*with_reservation(site, "n[0-2]"), "--drain", "n0", "--json").out)
    assert found["moved"] == {"1": "n[1-2]"}
    # Its reservation is not given: nobody knows where it might go.
    answer = run(*files(site), "--drain", "n0")
    assert answer.code == 4
    assert "running jobs that stay, because their reservation is not given: 1" in answer.err


def test_a_job_of_a_reservation_starts_on_its_nodes(run: Run, site: Path) -> None:
    waiting = job(9, "", 1, state="PENDING").replace("OverSubscribe", "Reservation=maint OverSubscribe")
    (site / "jobs.txt").write_text(job(1, "n0", 1) + waiting, encoding="utf-8")
    assert json.loads(run(*with_reservation(site, "n6"), "--start", "9", "--json").out)["started"] == {"9": "n6"}
    fault = "--start 9: its reservation maint is not in the cluster's files"
    assert fault in run(*files(site), "--start", "9").err


@pytest.mark.parametrize(
    "more", [" AllocTRES=cpu=1,mem=900M,node=1", " AllocTRES=cpu=1,mem=10M,node=1,gres/gpu=2,gres/gpu:a100=2"]
)
def test_a_job_keeps_all_memory_and_gpus_that_slurm_gave_it(run: Run, shared_site: Path, more: str) -> None:
    conf = (shared_site / "slurm.conf").read_text(encoding="utf-8")
    conf = conf.replace("RealMemory=1000", "RealMemory=1000 Gres=gpu:a100:2").replace("CR_Core", "CR_Core_Memory")
    (shared_site / "slurm.conf").write_text(f"{conf}GresTypes=gpu\n", encoding="utf-8")
    held = "".join(shared(number, f"n{number}", 1, 1, more).replace("Requeue=1", "Requeue=0") for number in range(8))
    waiting = shared(9, "", 1, 1, " MinMemoryNode=500M TresPerNode=gres/gpu:a100:1").replace("RUNNING", "PENDING")
    (shared_site / "jobs.txt").write_text(held + waiting.replace("Reason=None", "Reason=Resources"), encoding="utf-8")
    answer = run(*files(shared_site), "--start", "9")
    assert answer.code == 4
    assert "at least 1 more must stop" in answer.err


def test_a_job_on_shared_nodes_of_which_its_part_is_not_known_stays_and_fills_them(run: Run, shared_site: Path) -> None:
    # Nine tasks are 8 and 1, or 1 and 8, or anything between.
    uneven = shared(1, "n[0-1]", 2, 9, " AllocTRES=cpu=9,node=2").replace("NumTasks=2", "NumTasks=9")
    rest = "".join(shared(number, f"n{number}", 1, 8).replace("Requeue=1", "Requeue=0") for number in range(2, 8))
    rest = rest.replace("NumTasks=1 ", "NumTasks=8 ")
    waiting = shared(9, "", 1, 7).replace("RUNNING", "PENDING").replace("Reason=None", "Reason=Resources")
    waiting = waiting.replace("CPUs/Task=1", "CPUs/Task=7")
    (shared_site / "jobs.txt").write_text(uneven + rest + waiting, encoding="utf-8")
    answer = run(*files(shared_site), "--start", "9")
    assert answer.code == 4
    assert "with unknown resources on each of their nodes: 1" in answer.err
    source = node_states(shared_site, [1, *[8] * 7])
    answer = run("relocate", source, "--queue", shared_site / "jobs.txt", "--start", "9", "--json")
    # What nodes give says where it has eight: its other node is free once it has left.
    found = json.loads(answer.out)
    assert (found["started"], found["stopped"]) == ({"9": "n0"}, ["1"])


def test_that_no_state_of_nodes_is_given_is_said(run: Run, site: Path) -> None:
    told = "the files do not say which nodes are drained or down"
    assert told in run(*files(site), "--drain", "n0").err
    node = "NodeName=n0 CPUTot=8 CPUAlloc=8 RealMemory=1000 AllocMem=0 State=ALLOCATED Partitions=main\n"
    (site / "nodes.txt").write_text(node, encoding="utf-8")
    words = ["relocate", f"{site}/slurm.conf,{site}/nodes.txt,{site}/topology.conf", "--queue", site / "jobs.txt"]
    assert told not in run(*words, "--drain", "n0").err


def test_memory_that_slurm_does_not_share_out_keeps_nobody(run: Run, shared_site: Path) -> None:
    # With CR_Core every job may have all memory.
    both = "".join(shared(number, "n0", 1, 4, " AllocTRES=cpu=4,mem=1000M,node=1") for number in (1, 2))
    (shared_site / "jobs.txt").write_text(both, encoding="utf-8")
    answer = run(*files(shared_site), "--drain", "n0", "--json")
    assert sorted(json.loads(answer.out)["moved"]) == ["1", "2"]
