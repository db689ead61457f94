"""Arrays of kernels: their types, and copying and sorting that compile faster than numba's.

In numba, assigning an array to a slice takes three seconds to compile, because of the error message for different
shapes, and sorting takes one and a half seconds for every type of keys.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints, overload

import numpy as np
from numba import boolean, float64, from_dtype, int64, types
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.kernels.compiled import IS_PLAIN, helper, inlined

IntMatrix = Annotated[IntArray, 2]
FloatMatrix = Annotated[FloatArray, 2]
BoolMatrix = Annotated[BoolArray, 2]

Record = TypeVar("Record", covariant=True)


class Records(Protocol[Record]):
    """Array of records; a record is declared as a protocol whose fields are floats or integers."""

    @overload
    def __getitem__(self, key: int) -> Record: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    def __getitem__(self, key: int | str) -> Record | NDArray[Any]:
        """Return a record (in a kernel), or a field of all records."""

    @property
    def size(self) -> int:
        """Number of records."""


class _PlainRecord(np.record):  # type: ignore[misc]
    """A record whose fields Python finds by name, as kernels do, even if numpy's scalars have such an attribute."""

    def __getattribute__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "dtype").names
        return self[name] if name in fields else object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


@cache
def record_dtype(record: type) -> np.dtype[np.void]:
    """Return the memory layout of a record."""
    # Cached, because numpy would compare equal dtypes field by field in every call of a kernel.
    fields = get_type_hints(record).items()
    layout = np.dtype([(name, np.float64 if kind is float else np.int64) for name, kind in fields])
    return np.dtype((_PlainRecord, layout)) if IS_PLAIN else layout


def record_type(record: type) -> types.BaseNamedTuple:
    """Return numba's type of a named tuple by its annotations; see `field_type`."""
    return tuple_type(list(field_types(record).values()), record)


def tuple_type(fields: Sequence[types.Type], record: type) -> types.BaseNamedTuple:
    """Return numba's type of a named tuple of these fields, with a short name.

    The default name lists all fields. It has thousands of characters, and would be part of the machine-code name of
    every function that takes the tuple.
    """
    made: types.BaseNamedTuple = types.BaseTuple.from_types(fields, record)
    contents = repr((getattr(record, "_fields", ()), [str(field) for field in fields]))
    made.name = f"{record.__qualname__}_{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
    return made


def field_types(record: type) -> dict[str, types.Type]:
    """Return numba's types of the annotated fields of a class, by name; see `field_type`."""
    return {name: field_type(hint) for name, hint in get_type_hints(record, include_extras=True).items()}


def field_type(hint: Any) -> types.Type:
    """Return numba's type of a number, an array, `Records` or a named tuple of these, by its annotation.

    Arrays are C-contiguous. They have one dimension, or the number of dimensions in `Annotated`.
    """
    if hint in (int, float, bool):
        return {int: int64, float: float64, bool: boolean}[hint]
    if hasattr(hint, "_fields"):
        return record_type(hint)
    array, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    # The last argument of numpy's array alias is the dtype of the element type; with numpy 2.5, it is that type itself.
    element = get_args(array)[-1]
    (inner,) = get_args(element) or (element,)
    dtype = record_dtype(element) if get_origin(array) is Records else np.dtype(inner)
    return types.Array(from_dtype(dtype), next((one for one in extras if isinstance(one, int)), 1), "C")


@inlined
def put(values: NDArray[np.number], target: NDArray[np.number]) -> None:
    """Copy values to another array of the same size, which does not overlap them."""
    for i in range(values.size):
        target[i] = values[i]


@helper(allocates=True)
def stable_order(keys: FloatArray | IntArray) -> IntArray:
    """Return the indices that sort keys stably in ascending order; keys must not be NaN.

    This is a bottom-up merge sort.
    """
    n, width = keys.size, 1
    order, merged = np.arange(n), np.empty(n, dtype=np.int64)
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for k in range(first, last):
                if i < middle and (j == last or keys[order[i]] <= keys[order[j]]):
                    merged[k] = order[i]
                    i += 1
                else:
                    merged[k] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order
