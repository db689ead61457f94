"""The shipped agents keep what they promise on job sets that nothing was made for, and files are checked."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import HELD_OUT, Machine, Recipe
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.locality import SIERRA_TABLE
from learned.cush.policies import Trained
from learned.weights import Card, write_weights
from papers.cush.configuration import best_turnaround, of_agent


@pytest.mark.parametrize(
    ("weights", "machine"),
    [("sierra", Machine.of("sierra")), ("summit", Machine.of("summit"))],
    ids=["sierra", "summit"],
)
def test_a_shipped_agent_is_a_fifth_better_than_every_baseline_and_chooses_the_better_policy(
    weights: str, machine: Machine
) -> None:
    jobsets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 100))
    trained = Trained.load(weights)
    found = of_agent(trained.agent(), jobsets, machine, trained.queue)
    assert found.sets["normalized_turnaround"].mean() < 0.8 * best_turnaround(jobsets, machine)
    assert (found.policy == found.better).mean() > 0.99


def test_a_file_of_another_agent_or_with_parameters_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    weights, card = Trained.load("sierra").weights, Trained.load("sierra").card
    fields = {name: getattr(card, name) for name in Card.__slots__}
    write_weights(path, weights, Card(**{**fields, "training": "dras-ppo"}))
    with pytest.raises(BadFileError, match="holds weights of 'dras-ppo', not of 'cush'"):
        Trained.load(str(path))
    other = tmp_path / "other.safetensors"
    write_weights(other, {"policies.0.weight": np.zeros((10, 6), dtype=np.float32)}, card)
    with pytest.raises(BadFileError, match=r"'actor\.0\.weight' is missing"):
        Trained.load(str(other))
    with pytest.raises(UsageError, match="must be one of sierra, summit"):
        Trained.load("fugaku")
