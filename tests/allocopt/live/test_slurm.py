"""Jobs as squeue tells of them, by old and new versions of Slurm."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from allocopt.cluster.request import Request
from allocopt.live.slurm import Slurm, slurm_job, slurm_jobs

OLD: dict[str, Any] = {
    "job_id": 7, "job_state": "PENDING", "state_reason": "Resources", "priority": 12, "partition": "main", "qos": "",
    "user_name": "ann", "comment": "AdminComment=allocopt pinned=1", "admin_comment": "", "time_limit": 5,
    "eligible_time": 100, "start_time": 0, "end_time": 0, "tres_req_str": "cpu=24,mem=2G,node=2,billing=24",
    "tasks": 12, "max_nodes": 4, "tasks_per_node": 0, "cpus_per_task": 2, "memory_per_cpu": 100,
    "memory_per_node": None, "features": "a&b", "shared": None, "tres_per_node": "gres:gpu:a100:2",
    "required_nodes": "", "excluded_nodes": "", "array_task_string": "", "het_job_id": 0, "licenses": "",
    "contiguous": False, "resv_name": "", "core_spec": None, "job_resources": None,
}  # fmt: skip
ASKED = Request(
    12, 2, 4, None, 2.0, None, 100, (("a100", 2.0),), partition="main", constraint="a&b"
)  # fmt: skip


def newer(told: dict[str, Any]) -> dict[str, Any]:
    """Return the same as versions from 23.11 on tell it: numbers that may be unset, lists of words."""
    numbers = (
        "priority",
        "time_limit",
        "eligible_time",
        "start_time",
        "end_time",
        "tasks",
        "max_nodes",
        "cpus_per_task",
    )
    made = {key: {"set": True, "infinite": False, "number": told[key]} for key in numbers}
    for key in told.keys() & {"array_job_id", "array_task_id", "array_max_tasks"}:
        made[key] = {"set": told[key] is not None, "infinite": False, "number": told[key] or 0}
    unset = {"set": False, "infinite": False, "number": 0}
    return {
        **told, **made, "job_state": [told["job_state"]], "shared": [], "het_job_id": unset, "core_spec": unset,
        "memory_per_node": unset, "memory_per_cpu": {"set": True, "infinite": False, "number": told["memory_per_cpu"]},
    }  # fmt: skip


@pytest.mark.parametrize("told", [OLD, newer(OLD)], ids=["22.05", "23.11"])
def test_a_job_that_waits_is_understood_of_every_version(told: dict[str, Any]) -> None:
    job = slurm_job(told)
    assert job.request == ASKED
    assert (job.id, job.user, job.state, job.reason, job.priority) == ("7", "ann", "PENDING", "Resources", 12)
    assert (job.limit_s, job.begin_s, job.start_s) == (300.0, 100.0, 0.0)
    assert not job.is_marked


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["COMPLETING", "FAILED"], "COMPLETING"),
        (["PENDING", "COMPLETING", "REQUEUED"], "COMPLETING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        (["COMPLETED"], "COMPLETED"),
        ("COMPLETING", "COMPLETING"),
    ],
)
def test_a_job_that_has_its_nodes_is_known_by_the_flags_of_its_state(told: list[str] | str, state: str) -> None:
    assert slurm_job({**OLD, "job_state": told}).state == state


def test_a_look_asks_for_all_jobs_whatever_the_users_variables_filter(tmp_path: Path) -> None:
    # As newer versions do, it lists jobs that have ended only if their states are asked for.
    squeue = """\
#!/bin/sh
test -z "$SQUEUE_STATES$SQUEUE_PARTITION" || exit 1
case "$*" in *"-t all"*) cat "{folder}/all" ;; *) echo '{{"jobs": []}}' ;; esac
"""
    for name, text in (("squeue", squeue), ("sinfo", "#!/bin/sh\n"), ("scontrol", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "all").write_text(json.dumps({"jobs": [{**newer(OLD), "job_state": ["COMPLETED"]}]}))
    path = f"{tmp_path}:{os.environ['PATH']}"
    slurm = Slurm({"PATH": path, "SQUEUE_STATES": "PENDING", "SQUEUE_PARTITION": "other"})
    with patch.object(Slurm, "cluster"):
        assert [(job.id, job.state) for job in slurm.look().jobs] == [("7", "COMPLETED")]


def test_allocated_cores_memory_and_gpus_are_read_of_old_and_new_forms() -> None:
    cores = {"0": {"cores": {"0": "allocated", "1": "allocated"}}, "1": {"cores": {"4": "allocated"}}}
    old = {"nodes": "n[1-2]", "allocated_nodes": [{"nodename": "n1", "sockets": cores, "memory_allocated": 300}]}
    new = {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 3}, "memory": {"allocated": 300}}]}}
    for held in (old, new):
        job = slurm_job({**OLD, "job_state": "RUNNING", "job_resources": held, "gres_detail": ["gpu:a100:2(IDX:0-1)"]})
        assert job.allocated == {"n1": (3, 300, 2)}


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("contiguous", True, "asks for --contiguous, which is not modelled"),
        ("licenses", "matlab:1", "asks for license/matlab, which is not modelled"),
        ("tres_per_node", "gres:shard:2", "asks for gres/shard, which is not modelled"),
        (
            "tres_per_node",
            "gres/gpu:a:b:c",
            "squeue --json: job 7: is 'gres/gpu:a:b:c', must be a list such as gres/gpu:a100=2 or gpu:a100:2",
        ),
        (
            "memory_per_node",
            "much",
            "squeue --json: job 7: minmemorynode is 'MUCH', must be an amount such as 4000M or 16G",
        ),
        ("excluded_nodes", "n1", "asks for excluded_nodes, which is not modelled"),
        ("required_nodes", "n2", "asks for required_nodes, which is not modelled"),
    ],
)
def test_a_job_that_asks_for_what_is_not_modelled_is_left_to_slurm(key: str, value: str, fault: str) -> None:
    job = slurm_job({**OLD, key: value})
    assert job.request is None
    assert job.fault == fault


@pytest.mark.parametrize("form", [dict, newer], ids=["22.05", "23.11"])
def test_tasks_of_an_array_wait_as_jobs_of_their_own_as_many_as_may_run(form: Callable[[dict[str, Any]], Any]) -> None:
    array = {**OLD, "job_id": 9, "array_job_id": 9, "array_task_id": None, "array_task_string": "2,4-8:2%3"}
    running = {**OLD, "job_id": 10, "array_job_id": 9, "array_task_id": 0, "job_state": "RUNNING"}
    cores = {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 3}, "memory": {"allocated": 300}}]}}
    first = {**running, "job_resources": cores}
    for limit, begun, waiting in ((3, 1, ["9_2", "9_4"]), (None, 1, ["9_2", "9_4", "9_6", "9_8"]), (2, 2, ["9_2"])):
        ran = [{**first, "array_task_id": task, "job_id": 10 + task} for task in range(begun)]
        jobs = slurm_jobs([form({**array, "array_max_tasks": limit}), *map(form, ran)])
        assert [job.id for job in jobs if job.state == "PENDING"] == waiting
        assert {job.together for job in jobs if job.state == "PENDING"} == {"9_[2,4,6,8]"}
        assert {job.reason for job in jobs} == {"Resources", "JobArrayTaskLimit" if limit == begun else "Resources"}
        assert [job.id for job in jobs if job.state == "RUNNING"] == [f"9_{task}" for task in range(begun)]
        assert {job.request for job in jobs} == {ASKED}


def test_only_the_administrators_comment_marks_a_job() -> None:
    held = slurm_job({**OLD, "admin_comment": "allocopt priority=44"})
    assert held.is_marked
    assert not held.is_pinned
    assert held.mark == {"priority": 44}
    pinned = slurm_job({**OLD, "admin_comment": "allocopt priority=44 pinned=100", "required_nodes": "n[1-2]"})
    assert pinned.is_pinned
    assert pinned.request is not None
    assert pinned.request.required == "n[1-2]"
    # The nodes that a user asked for are not ours.
    asked = slurm_job({**OLD, "admin_comment": "allocopt priority=44", "required_nodes": "n[1-2]"})
    assert asked.request is None
