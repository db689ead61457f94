"""``allocopt train``."""

from pathlib import Path

import numpy as np
import pytest
from support.program import Run

from allocopt.learned.weights import read_weights
from allocopt.traces.generators import lublin_workload
from allocopt.traces.text import Swf


def generated_trace(path: Path) -> Path:
    """Write some weeks of Lublin-Feitelson jobs."""
    Swf().write(path, lublin_workload(3000, 64, np.random.default_rng(0)))
    return path


SMALL = ("--option", "updates=2", "--option", "environments=8", "--option", "window_epochs=1")


@pytest.mark.slow
def test_a_training_leaves_weights_and_learning_curve_and_can_be_solved_with(
    run: Run, tmp_path: Path, tiny: Path
) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "run"
    answer = run("train", "nsa", "--network", "fcn-1", "--seed", "5", "--out", folder, *SMALL)
    assert answer.code == 0
    assert answer.out.strip() == str(folder / "weights.safetensors")
    assert "100.0 % (2/2)" in answer.err
    names = {path.name for path in folder.iterdir()}
    assert names == {"weights.safetensors", "curve.csv", "curve.svg", "checkpoint.pt"}
    solved = run("solve", tiny, "--solver", "nsa", "--option", f"network={folder / 'weights.safetensors'}", "--json")
    assert (solved.code, solved.rows[0]["solver"]) == (0, "nsa")


@pytest.mark.slow
def test_what_was_stopped_goes_on_when_asked_to_and_only_then(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = ("train", "nsa", "--network", "fcn-1", "--out", tmp_path, *SMALL)
    assert "stopped; --resume continues" in run(*command, "--minutes", "0").out
    refused = run(*command)
    assert (refused.code, refused.out) == (2, "")
    assert "already has a training" in refused.err
    assert run(*command, "--resume").out.strip() == str(tmp_path / "weights.safetensors")


@pytest.mark.slow
def test_a_kernel_network_learns_from_a_trace_on_a_machine_of_a_size(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    jobs = generated_trace(tmp_path / "jobs.swf")
    small = ("--option", "epochs=1", "--option", "trajectories=2")
    answer = run("train", "rlscheduler", "--trace", jobs, "--processors", "64", "--out", tmp_path / "run", *small)
    assert answer.code == 0
    assert read_weights(tmp_path / "run" / "weights.safetensors")[1].settings["processors"] == "64"


@pytest.mark.slow
def test_an_agent_learns_from_a_trace_and_schedules_it(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    jobs = generated_trace(tmp_path / "jobs.swf")
    small = ("--option", "updates=1", "--option", "environments=4", "--option", "validation=1", "--option", "window=8")
    answer = run("train", "dras-ppo", "--trace", jobs, "--processors", "64", "--out", tmp_path / "run", *small)
    assert answer.code == 0
    weights = tmp_path / "run" / "weights.safetensors"
    assert answer.out.strip() == str(weights)
    assert read_weights(weights)[1].command.startswith("allocopt train dras-ppo --trace jobs.swf --processors 64")
    told = run("simulate", jobs, "--processors", "64", "--policy", "dras-ppo", "--option", f"weights={weights}")
    assert told.code == 0


def test_without_torch_it_lists_what_can_be_trained_and_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nsa" in run("train").out.split()
    monkeypatch.setattr("allocopt.learned.rl.training.find_spec", lambda name: None)
    answer = run("train", "nsa", "--out", tmp_path / "run")
    assert "'torch', which is not installed: pip install 'allocopt[train]'" in answer.refusal(5)
