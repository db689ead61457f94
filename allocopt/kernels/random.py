"""Random bits for kernels: splitmix64, a generator whose state is one word that a kernel can hold.

G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

import numpy as np

from allocopt.kernels.compiled import inlined

STEP = np.uint64(0x9E3779B97F4A7C15)
"""What the state is raised by before every draw."""

_FACTOR, _OTHER_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = (np.uint64(bits) for bits in (11, 27, 30, 31))


@inlined
def mixed_bits(state: "np.uint64") -> "np.uint64":
    """Return the 64 bits that are drawn in a state."""
    mixed = (state ^ (state >> _30)) * _FACTOR
    mixed = (mixed ^ (mixed >> _27)) * _OTHER_FACTOR
    bits: np.uint64 = mixed ^ (mixed >> _31)
    return bits


@inlined
def unit_interval(bits: "np.uint64") -> float:
    """Return 64 random bits as a number from 0 to below 1."""
    return float(bits >> _11) * 2.0**-53
