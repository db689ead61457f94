"""Trainings keep off the windows that evaluations use."""

from pathlib import Path

import pytest

from allocopt.errors import UsageError
from learned.nsa.training import NsaTraining
from learned.rl.training import LARGEST_SEED, RESERVED

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("seed", sorted(RESERVED))
def test_a_reserved_seed_is_refused_with_the_reason(seed: int) -> None:
    with pytest.raises(UsageError, match=f"seed {seed} is reserved for evaluation: it makes the windows of instances"):
        NsaTraining().check_seed(seed)


def test_the_reserved_seeds_are_those_of_the_shipped_windows() -> None:
    script = (ROOT / "instances" / "generate.sh").read_text()
    for seed, name in RESERVED.items():
        line = next(line for line in script.splitlines() if f"--seed {seed} " in line)
        assert f"--prefix {Path(name).stem} " in line


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30])
def test_another_seed_is_taken_unless_generators_do_not(seed: int) -> None:
    NsaTraining().check_seed(0)
    NsaTraining().check_seed(LARGEST_SEED)
    with pytest.raises(UsageError, match=f"the seed is {seed}, must be within 0"):
        NsaTraining().check_seed(seed)
