"""Random numbers for kernels, from generators whose state is small enough for a kernel to hold and seed.

- splitmix64, with one word: G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
  OOPSLA 2014.
- xoshiro256++, with four words that splitmix64 seeds: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number
  generators", ACM TOMS 47 (2021). Making NumPy's generator and passing it to a kernel would take longer than thirty
  steps of a search.
- Lehmer's generator, with one multiplication per number.
"""

import numpy as np

from allocopt.arrays import IntArray, WordArray
from allocopt.kernels.compiled import helper, inlined

_STEP = np.uint64(0x9E3779B97F4A7C15)  # added to the state of splitmix64 before every draw
_FACTOR, _OTHER_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_11, _16, _17, _19, _23, _27 = (np.uint64(bits) for bits in (11, 16, 17, 19, 23, 27))
_30, _31, _32, _41, _45, _48 = (np.uint64(bits) for bits in (30, 31, 32, 41, 45, 48))
_LOW = np.uint64(0xFFFF)
_MEAN, _DEVIATION = 4 * 32767.5, 65536.0 / 3.0**0.5  # of the sum of four numbers of 16 bits
_MODULUS = 2**31 - 1


@inlined
def _mixed_bits(state: "np.uint64") -> "np.uint64":
    mixed = (state ^ (state >> _30)) * _FACTOR
    mixed = (mixed ^ (mixed >> _27)) * _OTHER_FACTOR
    bits: np.uint64 = mixed ^ (mixed >> _31)
    return bits


@inlined
def _unit_interval(bits: "np.uint64") -> float:
    return float(bits >> _11) * 2.0**-53


@inlined
def splitmix_below(word: WordArray, count: int) -> int:
    """Return a random integer in 0 .. ``count`` - 1 by splitmix64, whose state is one word, shape ``(1,)``."""
    word[0] += _STEP
    return int(_unit_interval(_mixed_bits(word[0])) * count)


def folded(seed: int) -> int:
    """Return a seed of any size, reduced to one that kernels take."""
    return seed % 2**63


@helper(allocates=True)
def random_words(seed: int) -> WordArray:
    """Return the state of a generator; equal seeds give equal sequences."""
    words, at = np.empty(4, dtype=np.uint64), np.uint64(seed)
    for i in range(4):
        at += _STEP
        words[i] = _mixed_bits(at)
    return words


@inlined
def _draw(words: WordArray) -> "np.uint64":
    a, b, c, d = words[0], words[1], words[2], words[3]
    total = a + d
    drawn: np.uint64 = ((total << _23) | (total >> _41)) + a
    c ^= a
    d ^= b
    words[0], words[1], words[2], words[3] = a ^ d, b ^ c, c ^ (b << _17), (d << _45) | (d >> _19)
    return drawn


@inlined
def uniform(words: WordArray) -> float:
    """Return a random number in [0, 1)."""
    return _unit_interval(_draw(words))


@inlined
def below(words: WordArray, count: int) -> int:
    """Return a random integer in 0 .. ``count`` - 1."""
    return int(uniform(words) * count)


@inlined
def bell(words: WordArray) -> float:
    """Return a nearly normal random number of mean 0 and variance 1: a sum of four uniform ones."""
    drawn = _draw(words)
    total = (drawn & _LOW) + ((drawn >> _16) & _LOW) + ((drawn >> _32) & _LOW) + (drawn >> _48)
    number: float = (float(total) - _MEAN) / _DEVIATION
    return number


def lehmer_state(seed: int) -> IntArray:
    """Return an initial state of Lehmer's generator, shape ``(1,)``."""
    return np.array([np.random.default_rng(seed).integers(1, _MODULUS)])


@inlined
def lehmer_uniform(state: IntArray) -> float:
    """Return a random number in (0, 1) by Lehmer's generator."""
    state[0] = state[0] * 48271 % _MODULUS
    return float(state[0] / _MODULUS)
