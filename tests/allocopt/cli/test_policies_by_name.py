"""Every policy by its name: from Python, from the command line and in a sweep, with one answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.multicore import PLATFORM
from support.program import Run

import allocopt
from allocopt.cluster.platform_files import read_machine
from allocopt.experiments.plan import plan
from allocopt.simulator.multicore.policies import Action
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.schedule import Schedule
from allocopt.traces.tasks import read_irmasim

SEED = 3
MACHINES = {"window": {"fat_tree": [1, 2, 2]}}
"""Machines of policies that need another one than a pool of four processors."""
SWF = "; MaxProcs: 4\n" + "".join(
    f"{job} {7 * job} -1 {40 + 13 * job % 50} {1 + job % 3} -1 -1 {1 + job % 3} {95 + job} -1 1 {job} -1 {1 + job % 4}"
    " -1 -1 -1 -1\n"
    for job in range(1, 13)
)
TASKS = {
    "jobs": [{"id": f"job{number}", "subtime": number, "res": 1 + number % 2, "profile": "p"} for number in range(6)],
    "profiles": {"p": {"req_ops": 2e10, "ipc": 1, "req_time": 50, "mem": 1, "mem_vol": 500_000}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.swf").write_text(SWF, encoding="utf-8")
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS), encoding="utf-8")
    (tmp_path / "platform.toml").write_text(PLATFORM, encoding="utf-8")
    return tmp_path


def swept(folder: Path, policy: str, trace: str) -> dict[str, Any]:
    """Run the only cell of a sweep."""
    path = folder / "grid.toml"
    path.write_text(f'[[traces]]\n{trace}\n[[policies]]\nname = "{policy}"\nseeds = [{SEED}]\n', encoding="utf-8")
    grid = plan(path)
    (cell,) = grid.cells
    return dict(cell.task.run(grid.inputs[cell.source]))


def check_row(row: dict[str, Any], schedule: Schedule) -> None:
    assert row["jobs"] == len(schedule.start)
    assert row["makespan_s"] == pytest.approx(schedule.makespan_s)
    assert row["mean_wait_s"] == pytest.approx(schedule.wait_s.mean())
    if isinstance(schedule, MulticoreSchedule):
        assert row["energy_j"] == pytest.approx(schedule.energy_j)


POLICIES = {name: allocopt.get_policy(name) for name in allocopt.policy_names()}


@pytest.mark.parametrize(
    ("name", "on_cores"), [("fcfs", True), *((name, isinstance(policy, Action)) for name, policy in POLICIES.items())]
)
def test_a_policy_is_one_from_python_the_command_line_and_a_sweep(
    run: Run, folder: Path, name: str, on_cores: bool
) -> None:
    shape = MACHINES.get(name, {}).get("fat_tree")
    machine: Any = 4 if shape is None else allocopt.Platform.whole_nodes(allocopt.FatTree(*shape))
    file, options, fields = "jobs.swf", () if shape is None else ("--fat-tree", ",".join(map(str, shape))), ""
    if on_cores:
        machine, jobs = read_machine(folder / "platform.toml"), read_irmasim(folder / "tasks.json")
        file, options, fields = "tasks.json", ("--platform", folder / "platform.toml"), '\nplatform = "platform.toml"'
        made = allocopt.simulate(jobs, machine, name, seed=SEED)
    else:
        fields = "" if shape is None else f"\nfat_tree = {shape}"
        made = allocopt.simulate(allocopt.read_workload(folder / file), machine, name, seed=SEED)
    answer = run("simulate", folder / file, "--policy", name, "--seed", str(SEED), *options, "--json")
    assert answer.code == 0, answer.err
    for row in (answer.rows[0], swept(folder, name, f'file = "{file}"{fields}')):
        check_row(row, made)


def test_the_policies_are_all_there() -> None:
    """Those of the papers, too."""
    assert {"asax", "static-50", "cush", "dras-ppo", "sjf", "window"} <= POLICIES.keys()
    assert sum(isinstance(policy, Action) for policy in POLICIES.values()) == 36


@pytest.mark.parametrize("word", ["easy", "sjf+easy", "fcfs+conservative"])
def test_a_queue_order_goes_with_backfilling_in_one_word(run: Run, folder: Path, word: str) -> None:
    made = allocopt.simulate(allocopt.read_workload(folder / "jobs.swf"), 4, word)
    check_row(run("simulate", folder / "jobs.swf", "--policy", word, "--json").rows[0], made)


@pytest.mark.parametrize(
    ("trace", "policy", "fault"),
    [
        ('file = "jobs.swf"', "first-low_power", "is for multicore machines"),
        ('file = "jobs.swf"\ntypes = "t"', "fcfs", "types: needs platform, which is not given"),
        ('file = "tasks.json"\nplatform = "platform.toml"', "sjf", "no policy 'sjf' for a multicore platform"),
        (
            'file = "tasks.json"\nplatform = "platform.toml"\nfat_tree = [1, 1, 2]',
            "random-random",
            "cannot be combined with",
        ),
        (
            'file = "jobs.swf"\nfat_tree = [1, 2, 2]',
            "asax",
            "fat_tree: cannot be combined with policy 'asax', which lets jobs share cores",
        ),
    ],
)
def test_what_does_not_go_together_is_told_before_anything_runs(
    folder: Path, trace: str, policy: str, fault: str
) -> None:
    with pytest.raises(allocopt.AllocoptError, match=fault):
        swept(folder, policy, trace)
