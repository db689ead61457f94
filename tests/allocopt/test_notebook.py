"""What notebooks show."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.cluster.topology import FatTree
from allocopt.notebook import html_table
from allocopt.problems.instances import read_instances
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.simulator.metrics import measure
from allocopt.simulator.schedule import Schedule
from allocopt.solving.solve import solve
from allocopt.traces.workload import Workload


def cells(shown: Any) -> dict[str, str]:
    """Names and values of what an object shows of itself."""
    return dict(re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", shown._repr_html_()))


def test_texts_are_escaped_and_what_is_missing_is_a_dash() -> None:
    table = html_table("<script>", [("<b>", "&"), ("none", None), ("many", 12_345), ("pi", 3.14159265)])
    assert "<script>" not in table
    assert "<b>" not in table
    assert "&lt;b&gt;" in table
    assert ">&amp;<" in table
    assert ">\u2013<" in table
    assert ">12,345<" in table
    assert ">3.14159<" in table


def test_problems_and_results_describe_themselves() -> None:
    problem = TopologyProblem(FatTree(1, 2, 2), np.arange(4), (Job("<i>", 2), Job("b", 1)), name="<script>")
    assert cells(problem)["nodes asked for"] == "3"
    assert "<script>" not in problem._repr_html_()
    result = solve(problem, solver="best-fit", time_limit=5.0)
    assert cells(problem)["strategy"] == "free"
    assert cells(result)["status"] == str(result.status)
    assert cells(result)["objective"] == f"{result.objective:,.6g}"
    for shipped, fact in (("@knapsacks", "jobs"), ("@coallocations", "guests")):
        assert all(int(cells(one)[fact]) > 0 for one in read_instances([Path(shipped)]))


def test_schedules_do_too() -> None:
    times = np.array([0.0, 0.0])
    jobs = Workload("w", np.array([1, 2]), times, times + 10, np.array([1, 1]), times + 10)
    schedule = Schedule(jobs, 1, times, np.array([0.0, 10.0]), np.array([10.0, 20.0]))
    assert cells(schedule) == {
        "jobs": "2", "processors": "1", "mean wait s": "5", "longest wait s": "10", "makespan s": "20",
    }  # fmt: skip
    metrics = cells(measure(schedule))
    assert (metrics["mean wait s"], metrics["utilization"], metrics["mean hop cost"]) == ("5", "100.0 %", "\u2013")


def test_workloads_do_too_even_without_jobs() -> None:
    nothing = np.empty(0)
    none = np.empty(0, dtype=np.int64)
    assert cells(Workload("<b>", none, nothing, nothing, none, nothing))["mean run s"] == "\u2013"
    assert "<b>" not in Workload("<b>", none, nothing, nothing, none, nothing)._repr_html_()
    day = 86_400.0
    jobs = Workload("w", np.array([1, 2]), np.array([0, day]), np.ones(2), np.array([1, 4]), np.ones(2), 8)
    assert cells(jobs)["largest job, processors"] == "4"
    assert cells(jobs)["days from first to last submission"] == "1"
