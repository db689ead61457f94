"""How kernels are compiled that allocate nothing.

None of them makes an array or keeps one, so they need no reference counts (``_nrt``), which would cost ten times more
than the work itself.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

KERNEL: dict[str, Any] = {"nogil": True, "_nrt": False, "cache": True}
INLINE: dict[str, Any] = {"nogil": True, "_nrt": False, "forceinline": True}

Function = TypeVar("Function", bound=Callable[..., Any])


def inlined(function: Function) -> Function:
    """Make a function a part of the kernels that call it."""
    return cast(Function, njit(**INLINE)(function))


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile a function at once, or load it, for arguments of these types."""

    def compiled(function: Function) -> Function:
        return cast(Function, njit(signature, **KERNEL)(function))

    return compiled


def hot_kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile a function as `kernel` does, and make it a part of those that call it as well.

    A call copies the state, some seventy numbers; where it happens several times per job, that is most of the time.
    """

    def compiled(function: Function) -> Function:
        return cast(Function, njit(signature, **KERNEL, forceinline=True)(function))

    return compiled
