"""Heterogeneous jobs: their components start together, or are left out and counted."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from allocopt.cluster.request import Request
from allocopt.experiments.simulations import Site
from allocopt.experiments.specs import SimulationSpec
from allocopt.traces.components import APART, JOINED, with_joined_components
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

HEADER = "JobID|Submit|Start|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|NodeList|State\n"
SACCT = (
    HEADER
    + "502|2026-01-01T00:00:00|2026-01-01T00:00:00|600|20|1|8|n1|COMPLETED\n"
    + "500+0|2026-01-01T00:00:01|2026-01-01T00:10:00|100|10|2|16|n[1-2]|COMPLETED\n"
    + "500+1|2026-01-01T00:00:01|2026-01-01T00:10:00|300|20|2|16|n[3-4]|COMPLETED\n"
    + "600+1|2026-01-01T00:00:02|2026-01-01T00:20:00|10|10|1|8|n1|COMPLETED\n"
)


def trace(folder: Path, text: str = SACCT) -> Workload:
    (folder / "jobs.txt").write_text(text, encoding="utf-8")
    return read_workload(folder / "jobs.txt")


@pytest.mark.parametrize("shares_nodes", [False, True])
def test_components_become_one_job_of_all_their_nodes(tmp_path: Path, shares_nodes: bool) -> None:
    joined = with_joined_components(trace(tmp_path), shares_nodes=shares_nodes)
    assert [name or str(job) for name, job in zip(joined.names, joined.ids, strict=True)] == [
        "502",
        "500+[0,1]",
        "600+1",
    ]
    assert joined.processors.tolist() == [1, 4, 1]
    assert (joined.run[1], joined.estimate[1], joined.recorded_nodes[1]) == (300.0, 1200.0, "n[1-2],n[3-4]")
    assert joined.requests[1] == Request(32, 4, 4, 8, 1.0)
    assert dict(joined.repaired)[JOINED] == 2
    assert not joined.dropped


def test_components_that_ask_for_different_nodes_are_left_out_where_nodes_are_shared(tmp_path: Path) -> None:
    text = SACCT.replace("20|2|16|n[3-4]", "20|2|4|n[3-4]")
    apart = with_joined_components(trace(tmp_path, text), shares_nodes=True)
    assert apart.processors.tolist() == [1, 1]
    assert dict(apart.dropped) == {APART: 2}
    whole = with_joined_components(trace(tmp_path, text), shares_nodes=False)
    assert whole.processors.tolist() == [1, 4, 1]


def test_components_are_known_by_their_shown_ids_beside_plain_numbers(tmp_path: Path) -> None:
    rows = [line.split("|", 1) for line in SACCT.splitlines()]
    numbered = ["JobIDRaw|" + "|".join(rows[0])] + [
        f"{900 + at}|{job}|{rest}" for at, (job, rest) in enumerate(rows[1:])
    ]
    joined = with_joined_components(trace(tmp_path, "\n".join(numbered) + "\n"), shares_nodes=True)
    assert joined.processors.tolist() == [1, 4, 1]
    assert joined.ids.tolist() == [900, 901, 903]


def in_table(rows: list[tuple[int, int, int, int]], prefix: str) -> str:
    lines = [f"id_job,{prefix}_job_id,{prefix}_job_offset,state,time_submit,time_start,time_end,nodes_alloc"]
    lines += [f"{job},{of},{offset},3,0,10,70,{nodes}" for job, of, offset, nodes in rows]
    return "\n".join(lines)


def in_accounting(rows: list[tuple[int, int, int, int]]) -> str:
    jobs = [
        {
            "job_id": job,
            "allocation_nodes": nodes,
            "het": {"job_id": of, "job_offset": {"set": offset < 9, "infinite": False, "number": offset}},
            "state": {"current": ["COMPLETED"]},
            "time": {"submission": 5, "start": 10, "end": 70, "elapsed": 60},
        }
        for job, of, offset, nodes in rows
    ]
    return json.dumps({"jobs": jobs})


def in_the_controller(rows: list[tuple[int, int, int, int]]) -> str:
    jobs = [
        {
            "job_id": job,
            "node_count": nodes,
            "het_job_id": {"set": bool(of), "infinite": False, "number": of},
            "het_job_offset": {"set": offset < 9, "infinite": False, "number": offset},
            "job_state": ["COMPLETED"],
            "submit_time": 5,
            "start_time": 10,
            "end_time": 70,
        }
        for job, of, offset, nodes in rows
    ]
    return json.dumps({"jobs": jobs})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("jobs.csv", lambda rows: in_table(rows, "het")),
        ("jobs.csv", lambda rows: in_table(rows, "pack")),
        ("jobs.json", in_accounting),
        ("jobs.json", in_the_controller),
    ],
    ids=["database", "database of Slurm 19", "sacct --json", "squeue --json"],
)
def test_components_are_known_by_the_numbers_of_databases_and_json(
    tmp_path: Path, name: str, write: Callable[[list[tuple[int, int, int, int]]], str]
) -> None:
    rows = [(7, 0, 2**32 - 2, 1), (8, 8, 0, 2), (9, 8, 1, 3)]
    (tmp_path / name).write_text(write(rows), encoding="utf-8")
    workload = read_workload(tmp_path / name)
    assert workload.names.tolist() == ["", "8+0", "8+1"]
    assert with_joined_components(workload, shares_nodes=False).processors.tolist() == [1, 5]


def test_a_trace_without_components_is_left_as_it_is(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "".join(line for line in SACCT.splitlines(keepends=True) if "500+" not in line))
    assert with_joined_components(jobs, shares_nodes=True) is jobs


def test_a_simulation_starts_components_together(tmp_path: Path) -> None:
    trace(tmp_path)
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-4]\n", encoding="utf-8")
    files = {"trace": str(tmp_path / "jobs.txt"), "topology": str(tmp_path / "topology.conf")}
    site = Site.of(SimulationSpec(**files))
    assert np.array_equal(site.jobs.processors, [1, 4, 1])
    assert any(JOINED in remark for remark in site.remarks)
