"""Rows of networks compare each training with FCFS and EASY on the same jobs, and group trainings by reward."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.artifacts import ours
from support.workloads import busy_days

from allocopt.learned.weights import find_weights, read_weights, write_weights
from allocopt.reproduction import ReproductionRow
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from papers.artifact import Asked
from papers.dras import networks
from papers.dras.configuration import THETA

WEIGHTS = Path(find_weights("dras-pg", "theta"))


def trained_again(folder: Path, name: str, seed: int, mean_wait: float) -> None:
    """Write shipped weights as those of a training with another seed and reward."""
    weights, card = read_weights(WEIGHTS)
    reward = {**card.settings["reward"], "mean_wait": mean_wait, "longest_wait": 0.0}
    settings = {**card.settings, "reward": reward}
    write_weights(folder / name / "weights.safetensors", weights, replace(card, seed=seed, settings=settings))


def test_trainings_that_differ_only_in_their_seed_are_one_method(tmp_path: Path) -> None:
    for name, seed, mean_wait in (("a", 1, 0.0), ("b", 2, 0.0), ("c", 1, 1000.0)):
        (tmp_path / name).mkdir()
        trained_again(tmp_path, name, seed, mean_wait)
    found = networks.agents_of(str(tmp_path))
    assert [one.seed for one in found["DRAS-PG, compact, Eq. 1 alone"]] == [1, 2]
    assert len(found["DRAS-PG, compact, Eq. 1 and waits"]) == 2
    assert found.keys() - networks.agents_of("").keys() == {"DRAS-PG, compact, Eq. 1 alone"}


def test_an_agent_waits_as_long_in_its_environment_as_in_the_simulator() -> None:
    jobs = busy_days(3, 200, 2, THETA.processors, "theta", 0.1)
    jobs = replace(jobs, processors=np.minimum(100 * jobs.processors, THETA.processors))
    (trained,) = networks.agents_of("")["DRAS-PG, compact, Eq. 1 and waits"]
    waits = networks._waits_of_agent(trained, [jobs, jobs])
    schedule = simulate(jobs, THETA.processors, get_policy("dras-pg", {"weights": "theta"}))
    expected = [schedule.job_times.wait_s.mean() / 3600.0, schedule.job_times.wait_s.max() / 3600.0]
    assert waits.shape == (2, 2)
    assert waits[0] == pytest.approx(expected)


def test_ratios_are_paired_by_jobset_and_averaged_over_seeds() -> None:
    def record(*runs: list[list[float]]) -> dict[str, Any]:
        return {"runs": [{"seed": seed, "processor_s": 60.0, "waits": waits} for seed, waits in enumerate(runs)]}

    records = {
        "load 1: FCFS/B": record([[2.0, 10.0], [4.0, 10.0]]),
        "load 1: DRAS-PG, paper, Eq. 1 alone": record([[1.0, 20.0], [4.0, 10.0]], [[2.0, 10.0], [2.0, 10.0]]),
    }
    rows = {
        (number.row, number.column): ReproductionRow("x", **number._asdict()) for number in networks._numbers(records)
    }
    row = "load 1: DRAS-PG, paper, Eq. 1 alone"
    assert ours(rows, row, "mean wait / FCFS/B") == pytest.approx(np.mean([0.75, 0.75]))
    assert ours(rows, row, "max wait / FCFS/B") == pytest.approx(1.25)
    assert ours(rows, row, "mean wait / FCFS/B, by seed") == pytest.approx(0.75)
    assert ours(rows, row, "trainings") == 2
    assert ours(rows, row, "processor minutes of a training") == 1.0


def test_the_jobsets_of_a_load_have_this_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def month(site: object, asked: Asked) -> Workload:
        return busy_days(3, 500, 28, THETA.processors, "theta", 0.12)

    monkeypatch.setattr(networks, "trace_of", month)
    first, second = networks._jobsets("load 1", Asked(tmp_path, True, (0,)))
    assert first.name != second.name
    area = float((np.minimum(first.run, first.estimate) * first.processors).sum())
    assert area / (7 * 86_400 * THETA.processors) == pytest.approx(1.0, abs=0.1)
