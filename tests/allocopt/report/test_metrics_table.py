"""The outcome of a simulation as a row and as tables."""

import json
from dataclasses import asdict

import numpy as np
from support.workloads import workload

from allocopt.cluster.topology import FatTree
from allocopt.report.metrics_table import metrics_table
from allocopt.report.rows import SimulateRow
from allocopt.simulator.metrics import Trim, measure
from allocopt.simulator.schedule import Schedule

JOBS = workload([(1, 0.0, 100.0, 1, 100.0), (2, 0.0, 20.0, 4, 90.0), (3, 10.0, 10.0, 3, 40.0)])
MADE = Schedule(JOBS, 8, JOBS.submit, np.array([0.0, 0.0, 2010.0]), np.array([100.0, 20.0, 2020.0]))


def test_the_row_has_the_fixed_keys_and_counts_all_jobs_for_its_speed() -> None:
    row = asdict(SimulateRow.of(MADE, measure(MADE), 0.5))
    assert json.loads(json.dumps(row)) == {
        "jobs": 3, "mean_wait_s": 2000 / 3, "max_wait_s": 2000.0, "mean_bounded_slowdown": (1 + 1 + 201) / 3,
        "utilization": (100 + 80 + 30) / (8 * 2020), "makespan_s": 2020.0, "runtime_s": 0.5, "jobs_per_s": 6.0,
    }  # fmt: skip
    trimmed = SimulateRow.of(MADE, measure(MADE, Trim(0.5)), 0.5)
    assert (trimmed.jobs, trimmed.jobs_per_s) == (2, 6.0)
    # The clock may not have moved.
    assert SimulateRow.of(MADE, measure(MADE), 0.0).jobs_per_s == 3e9


def test_the_tables_hold_every_measure_and_a_line_per_class_of_size() -> None:
    nodes = tuple(np.arange(size) for size in JOBS.processors)
    placed = Schedule(JOBS, 8, JOBS.submit, MADE.start, MADE.end, nodes, FatTree(2, 2, 2))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in metrics_table(measure(placed)).splitlines()]
    # Hops of four nodes in one pod over n = 4, and of three over n = 3: (4 2 + 8 4) / 4 and (2 2 + 4 4) / 3.
    assert ["wait s", "666.67", "0.00", "1,800.00", "2,000.00"] in lines
    assert ["2-4", "2", "1,000.00", "1,000.00", "1,900.00", "2,000.00", "101.00", "0", "8,333.3"] in lines
    assert ["1", "1", "0.00", "0.00", "0.00", "0.00", "1.00", "0", "-"] in lines
    assert [line[0] for line in lines if line[:1] and line[0] in ("1", "2-4", "5-16", "all")] == ["1", "2-4", "all"]
    assert ["utilization", "0.012995"] in lines
    assert ["jobs that waited longer than 86,400 s", "0"] in lines
    assert [line[0] for line in lines if line and line[0].startswith("fragmentation")] == [
        "fragmentation of idle nodes, level 1",
        "fragmentation of idle nodes, level 2",
    ]
