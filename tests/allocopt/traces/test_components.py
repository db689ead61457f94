"""Heterogeneous jobs: their components start together, or are left out and counted."""

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
