"""Every example of IRMaSim: it runs, or is refused with a reason; and the statistics that come with some of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.multicore import examples

from allocopt.cluster.multicore import Cluster, Machine, PowerConstants
from allocopt.cluster.platform_files import read_machine
from allocopt.errors import AllocoptError, InvalidProblemError
from allocopt.simulator.multicore.policies import ACTIONS
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.multicore.state import Execution
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TaskWorkload, read_irmasim

LATER_SHARING = 0.6
"""In IRMaSim's later code, with which its statistics were made."""
LATER_IDLE = 0.05
"""Share of the shared power that idle processors draw there, whatever the file says."""
FOLDERS = {
    "backfill": None,
    "cal/job_4_cal_str_19314_log2_multi_v1": None,
    "cal/job_4_cal_str_19314_log2_v1": None,
    "cal/job_4_cal_str_19314_log2_v1/ejemplo": None,
    "cal/job_4_cal_str_19314_log2_v1/ejemplo_2": None,
    "cal/job_4_cal_str_19314_log2_v1.1": None,
    "cal/job_4_cal_str_19314_log2_v2": "is 'modelV2', whose equations are others; must be 'modelV1'",
    "cal/job_4_cal_str_19314_log2_v2.1": "profile_version: is 2, whose equations are others; must be 1",
    "dual_core": None,
    "energy": None,
    "heuristic/job": None,
    "heuristic/resource": None,
    "lublin": "jobs.json: No such file",
    "metrics/util": None,
    "policy/save": None,
    "policy/spread": None,
}
"""Why an example is refused, None for those that run."""


def run(folder: Path, policy: str = "first-high_gflops", execution: Execution | None = None) -> MulticoreSchedule:
    options = json.loads(next(iter(sorted(folder.glob("options*.json")))).read_text(encoding="utf-8"))
    machine = read_machine(f"{folder / options['platform_file']}#{options['platform_name']}")
    return simulate(read_irmasim(folder / options["workload_file"]), machine, policy, execution=execution)


def test_no_example_is_left_out(shared_data: Path) -> None:
    found = {path.parent.relative_to(examples(shared_data)) for path in examples(shared_data).rglob("options*.json")}
    assert {str(folder) for folder in found} == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_example_runs_or_is_refused_with_a_reason(shared_data: Path, folder: str) -> None:
    path, reason = examples(shared_data) / folder, FOLDERS[folder]
    if reason is not None:
        with pytest.raises(AllocoptError, match=reason):
            run(path)
        return
    made = run(path)
    assert (made.start >= made.jobs.submit).all()
    assert (made.end > made.start).all()
    assert made.energy_j > 0


def test_every_other_platform_of_the_examples_is_read(shared_data: Path) -> None:
    for path in examples(shared_data).rglob("platform_*.json"):
        assert read_machine(path).cores == 8


@pytest.mark.parametrize("policy", [action.name for action in ACTIONS if action.jobs is not None])
def test_a_job_of_128_cores_on_nodes_of_64_is_refused_not_half_run(shared_data: Path, policy: str) -> None:
    machine = read_machine(examples(shared_data) / "lublin" / "platform.json")
    one = np.ones(2)
    jobs = TaskWorkload(
        "lublin", ("job0", "job1"), np.zeros(2), np.array([1, 1]), np.array([4, 128]), 1e9 * one, one, one, one, one
    )
    wanted = "job 'job1': asks for 1 node with 128 cores and 128 MB each, the machine has 0 such nodes"
    with pytest.raises(InvalidProblemError, match=f"{wanted}; its largest node has 64 cores"):
        simulate(jobs, machine, policy)


def with_idle_power(machine: Machine) -> Machine:
    """Let idle processors draw what they do in IRMaSim's later code."""
    clusters = []
    for cluster in machine.clusters:
        nodes = []
        for node in cluster.nodes:
            (kind,) = node.processors
            assert kind.power is not None
            power = PowerConstants(kind.power.core_w, kind.power.processor_w, LATER_IDLE * kind.power.processor_w)
            nodes.append(replace(node, processors=(replace(kind, power=power),)))
        clusters.append(Cluster(cluster.name, tuple(nodes)))
    return Machine(machine.name, tuple(clusters))


@pytest.mark.parametrize(
    ("folder", "policy", "tolerance"),
    [
        ("dual_core", "first-high_gflops", 1e-9),
        ("cal/job_4_cal_str_19314_log2_v1.1", "first-high_gflops", 1e-7),
        ("cal/job_4_cal_str_19314_log2_v1", "shortest-high_gflops", 5e-3),
    ],
)
def test_the_statistics_of_irmasim_come_out(shared_data: Path, folder: str, policy: str, tolerance: float) -> None:
    path = examples(shared_data) / folder
    published = json.loads((path / "statistics.json").read_text(encoding="utf-8"))
    machine = with_idle_power(read_machine(path / "platform.json"))
    workload = "jobs.json" if folder == "dual_core" else "workload.json"
    made = simulate(read_irmasim(path / workload), machine, policy, execution=Execution(sharing=LATER_SHARING))
    # Theirs begin at 0 s, not at the first submission.
    idle = sum(kind.power.idle_w for kind in machine.processors() if kind.power) * float(made.jobs.submit[0])
    assert made.end.max() == pytest.approx(published["Makespan (seconds)"], rel=tolerance)
    assert made.energy_j + idle == pytest.approx(published["Energy_Consumed (J)"], rel=tolerance)
