"""The generator of the search: that of its authors, even, and nearly normal where it should be."""

import numpy as np
import pytest
from numba import njit

from allocopt.arrays import FloatArray, WordArray
from allocopt.kernels.random import bell, below, folded, random_words, uniform

MASK = 2**64 - 1


@njit
def drawn(words: WordArray, count: int) -> FloatArray:
    numbers = np.empty((3, count))
    for i in range(count):
        numbers[0, i] = uniform(words)
        numbers[1, i] = bell(words)
        numbers[2, i] = below(words, 6)
    return numbers


def reference(seed: int, count: int) -> list[int]:
    """Draw by the published programs, in whole numbers of Python."""
    state = []
    for i in range(1, 5):
        z = (seed + i * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        state.append(z ^ z >> 31)

    def rotated(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & MASK

    numbers = []
    for _ in range(count):
        numbers.append((rotated((state[0] + state[3]) & MASK, 23) + state[0]) & MASK)
        t = (state[1] << 17) & MASK
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= t
        state[3] = rotated(state[3], 45)
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2**62 + 3])
def test_it_draws_what_the_published_generator_draws(seed: int) -> None:
    numbers = drawn(random_words(seed), 10)
    assert numbers[0].tolist() == [(x >> 11) / 2**53 for x in reference(seed, 30)[::3]]


def test_numbers_are_even_and_nearly_normal() -> None:
    numbers = drawn(random_words(7), 100_000)
    assert 0.0 <= numbers[0].min() <= numbers[0].max() < 1.0
    assert numbers[0].mean() == pytest.approx(0.5, abs=0.005)
    assert numbers[1].mean() == pytest.approx(0.0, abs=0.015)
    assert numbers[1].std() == pytest.approx(1.0, abs=0.01)
    assert (np.abs(numbers[1]) < 1.0).mean() == pytest.approx(0.68, abs=0.02)
    assert np.bincount(numbers[2].astype(int)) / 100_000 == pytest.approx(np.full(6, 1 / 6), abs=0.006)


def test_seeds_of_any_size_are_taken() -> None:
    assert folded(5) == 5
    assert random_words(folded(2**200 + 1)).tolist() != random_words(folded(2)).tolist()
