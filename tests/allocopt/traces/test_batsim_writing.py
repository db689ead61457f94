import json
from pathlib import Path

import pytest
from hypothesis import given
from support.workloads import jobs_of, workload, workloads

from allocopt.traces.batsim import read_batsim
from allocopt.traces.batsim_writing import batsim_losses, write_batsim
from allocopt.traces.workload import Workload


def test_equal_run_times_share_a_profile(tmp_path: Path) -> None:
    write_batsim(tmp_path / "a.json", workload([(1, 0, 60.0, 4, 90), (2, 5, 60.0, 8, 61.5), (3, 6, 0.5, 1, 1)], 16))
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "description": "w",
        "nb_res": 16,
        "jobs": [
            {"id": 1, "subtime": 0, "walltime": 90, "res": 4, "profile": "delay_60"},
            {"id": 2, "subtime": 5, "walltime": 61.5, "res": 8, "profile": "delay_60"},
            {"id": 3, "subtime": 6, "walltime": 1, "res": 1, "profile": "delay_0.5"},
        ],
        "profiles": {"delay_0.5": {"type": "delay", "delay": 0.5}, "delay_60": {"type": "delay", "delay": 60}},
    }
    assert ".0" not in (tmp_path / "a.json").read_text()


@given(workloads())
def test_any_workload_is_read_again_as_it_was(tmp_path_factory: pytest.TempPathFactory, made: Workload) -> None:
    path = tmp_path_factory.mktemp("batsim") / "a.json"
    write_batsim(path, made)
    again = read_batsim(path)
    assert jobs_of(again) == jobs_of(made)
    assert again.machine_processors == (made.machine_processors or made.processors.max())
    assert again.remarks() == []


def test_a_machine_that_had_to_be_made_up_is_said() -> None:
    jobs = [(1, 0.0, 5.0, 3, 5.0)]
    assert batsim_losses(workload(jobs)) == ["size of the machine not known, that of the largest job written: 3"]
    assert batsim_losses(workload(jobs, machine=9)) == []


def test_a_workload_that_ran_on_grid5000_is_read_again_as_it_was(shared_data: Path, tmp_path: Path) -> None:
    made = read_batsim(shared_data / "g5k_oar" / "workloads" / "g5k_workload_delay_seed1_size32.json.gz")
    write_batsim(tmp_path / "a.json.gz", made)
    again = read_batsim(tmp_path / "a.json.gz")
    assert (jobs_of(again), again.machine_processors) == (jobs_of(made), 32)
