"""Values are brought to their declared types once, or refused by name."""

from enum import StrEnum
from typing import Any, Literal, Protocol

import numpy as np
import pytest

from allocopt.errors import UsageError
from allocopt.values import converted


class Colour(StrEnum):
    RED = "red"


class Paints(Protocol):
    def paint(self) -> None: ...


class Painter:
    def paint(self) -> None: ...


PAINTER = Painter()


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, float, 1.0),
        (np.float32(20), float, 20.0),
        (np.int64(3), float, 3.0),
        (np.int64(3), int, 3),
        (np.bool_(True), bool, True),
        (None, float | None, None),
        (2, float | None, 2.0),
        (2, int | float, 2),
        (2.5, int | float, 2.5),
        ("5,6", int | str, "5,6"),
        ([1, 2.5], tuple[float, float], (1.0, 2.5)),
        ([1, 2], tuple[int, ...], (1, 2)),
        ("red", Colour, Colour.RED),
        ("b", Literal["a", "b"], "b"),
        (PAINTER, str | Paints, PAINTER),
        ([1], list[int], [1]),
        (object, Any, object),
    ],
)
def test_a_value_that_fits_becomes_one_of_its_type(value: object, kind: Any, expected: object) -> None:
    found = converted("it", value, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "fault"),
    [
        ("1", float, "it is '1', must be of type float"),
        (True, float, "it is true, must be of type float"),
        (True, int, "it is true, must be of type int"),
        (1, bool, "it is 1, must be of type bool"),
        (1.0, int, "it is 1.0, must be of type int"),
        (2**63, int, "it is 9223372036854775808, must be of type int; it is too large"),
        (2**63, int | None, "it is 9223372036854775808, must be of type int or None; it is too large"),
        (10**400, float, "must be of type float; it is too large"),
        (10**5000, float, "it is a int that is too long to be shown, must be of type float; it is too large"),
        ([[1], 2, 3], tuple[float, float, float], "it is a list, must be of type tuple[float, float, float]"),
        ([1], tuple[float, float], "it is a list"),
        (1, str | Paints, "it is 1, must be of type str or Paints"),
        ("blue", Colour, "it is 'blue', must be of type Colour (red)"),
        ("c", Literal["a", "b"], "it is 'c'"),
        ({}, list[int], "it is an empty object"),
        (np.ones(2), float, "must be of type float"),
    ],
    ids=lambda value: str(type(value)),
)
def test_a_value_that_does_not_fit_is_refused_by_name_value_and_type(value: object, kind: Any, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        converted("it", value, kind)
    assert fault in str(caught.value)
