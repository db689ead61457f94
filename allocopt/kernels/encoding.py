"""Numba's type of a problem's encoding."""

from numba import float64, int64, types

from allocopt.problems.encoding import Encoding

ENCODING = types.NamedTuple((int64[:, ::1], int64[::1], float64[::1], float64, float64, float64, int64[::1]), Encoding)
"""Numba type of `allocopt.problems.encoding.Encoding`."""
