"""Compiled inner loops that exact and heuristic solvers share."""

import os

from allocopt.errors import UsageError

if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    # What the kernels keep in numba's structures exists for compiled code only.
    raise UsageError("NUMBA_DISABLE_JIT is set: nothing can be solved or simulated without compiled kernels, unset it")
