"""Windows of every field of the format: solvers and `verify` against the enumeration of all solutions."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from support.against_references import NAMES, solver_faults
from support.random_placements import FIELDS, SHAPES, Instance, binds, random_window, window_without_segments

SEEDS = (*range(120), 171, 259)  # in the last two, two and three sets bind


@cache
def window(seed: int) -> Instance:
    return random_window(np.random.default_rng(seed))


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_no_solver_and_no_verdict_contradicts_the_enumeration(first: int) -> None:
    for seed in range(first, first + 30):
        assert solver_faults(window(seed), NAMES, seed, Counter()) == [], f"seed {seed}"


@pytest.mark.parametrize("seed", [75, 280, 1238, 2973, 6620, 6686, 6960, 7620])
def test_windows_that_were_solved_wrongly_are_solved(seed: int) -> None:
    obj = window_without_segments(np.random.default_rng(seed))
    assert solver_faults(obj, NAMES, seed, Counter()) == []


def test_the_windows_draw_every_field_and_make_it_bind() -> None:
    windows = [window(seed) for seed in SEEDS]
    assert [name for name, holds in SHAPES.items() if not any(map(holds, windows))] == []
    unbound = [
        name for name, (field, holds) in FIELDS.items() if not any(holds(obj) and binds(obj, field) for obj in windows)
    ]
    assert unbound == []
