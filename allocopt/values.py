"""Conversion of given values to their declared types."""

from enum import Enum
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from allocopt.errors import UsageError
from allocopt.files.faults import shown

LARGEST_INTEGER = 2**62
"""Largest magnitude of an integer, because kernels use 64 bits."""

_PLAIN = (NoneType, bool, int, float, str, list, dict)  # Types of values from command lines and files


def converted(what: str, value: object, kind: Any) -> Any:
    """Return a value converted to a declared type; raise `UsageError` if it does not fit.

    The message names the value ``what``. A generic type such as ``list[int]`` is checked only as ``list``; of tuples,
    the elements are checked, too.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        return _as(plain, kind)
    except (TypeError, OverflowError) as error:
        fault = "; it is too large" if isinstance(error, OverflowError) else ""
        raise UsageError(f"{what} is {shown(plain)}, must be of type {_words(kind)}{fault}") from None


def _as(value: Any, kind: Any) -> Any:
    own = kind.__args__ if isinstance(kind, UnionType) else (kind,)
    if type(value) in own and (type(value) is not int or abs(value) <= LARGEST_INTEGER):
        # Fast path, which is taken nearly always: a solve may take only 0.3 ms.
        return value
    if type(value) is int and float in own:
        return float(value)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _as_one_of(value, parts)
    if origin is tuple:
        return _as_tuple(value, parts)
    if origin is Literal:
        return _if(value, value in parts)
    if kind is float:
        return float(_if(value, isinstance(value, Real) and not isinstance(value, bool)))
    if kind is int:
        number = int(_if(value, isinstance(value, Integral) and not isinstance(value, bool)))
        if abs(number) > LARGEST_INTEGER:
            raise OverflowError
        return number
    if kind is None:
        return _if(value, value is None)
    return _as_class(value, origin or kind)


def _as_one_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Return a value converted to the first type that fits; its own type is tried first."""
    faults: list[Exception] = []
    # Otherwise ``float | int`` would turn the integer 1 into a float.
    own = (kind for kind in kinds if kind is type(value))
    for kind in (*own, *kinds):
        try:
            return _as(value, kind)
        except (TypeError, OverflowError) as error:
            faults.append(error)
    raise next((fault for fault in faults if isinstance(fault, OverflowError)), faults[0])


def _as_tuple(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list or tuple as a tuple of values converted to these types."""
    _if(value, isinstance(value, list | tuple))
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    _if(value, len(value) == len(kinds))
    return tuple(_as(each, kind) for each, kind in zip(value, kinds, strict=True))


def _as_class(value: Any, kind: Any) -> Any:
    if not isinstance(kind, type) or kind in (Any, object):
        return value
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise TypeError from None
    if getattr(kind, "_is_protocol", False):
        # The methods of a protocol are not checked here.
        return _if(value, not isinstance(value, _PLAIN))
    return _if(value, isinstance(value, kind))


def _if(value: Any, is_right: bool) -> Any:
    if not is_right:
        raise TypeError
    return value


def _words(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(map(_words, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{kind.__name__} ({', '.join(str(member.value) for member in kind)})"
    if kind in (None, NoneType):
        return "None"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
