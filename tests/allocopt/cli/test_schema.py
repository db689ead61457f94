"""The published JSON Schema says what the readers read."""

import copy
import functools
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.coallocations import coallocations
from support.knapsacks import knapsacks
from support.placements import small_placements
from support.relocations import random_problem
from support.side import ruled_windows

from allocopt.cli.schema import SchemaName, _json_schema
from allocopt.errors import BadFileError
from allocopt.files.models import check_header, validated
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.kind import get_kind, kind_names
from allocopt.solving.solution_files import BestKnownFile, object_from_result
from allocopt.solving.solve import solve


@functools.cache
def validator(what: SchemaName) -> Draft202012Validator:
    return Draft202012Validator(_json_schema(what))


@functools.cache
def solution(kind: str, strategy: str | None = None) -> dict[str, Any]:
    problem = shipped_problems(kind)[0]
    solver = {"placement": "cons-tres", "relocation": "cheapest-first", "topology": "sequential"}.get(kind, "greedy")
    return object_from_result(problem, solve(problem, strategy=strategy, solver=solver))


def is_read(what: SchemaName, value: Any) -> bool:
    """Whether the reader of a kind takes the structure of a file."""
    models = [getattr(get_kind(kind).codec, f"{what}_model", BestKnownFile) for kind in kind_names()]
    for model in models:
        with suppress(BadFileError):
            validated(model, value if model is BestKnownFile else check_header(value, "it", f"allocopt-{what}"), "it")
            return True
    return False


PROBLEMS = st.one_of(
    *(ruled_windows(), knapsacks(resources=2, slots=True), small_placements()),
    *(coallocations(), coallocations(several=True), coallocations(measured=True)),
    st.integers(0, 500).map(random_problem),
)
OBJECTS: dict[SchemaName, st.SearchStrategy[Any]] = {
    "instance": PROBLEMS.map(object_from_problem),
    "solution": st.sampled_from([*((kind, None) for kind in kind_names()), ("topology", "dcas")]).map(
        lambda how: solution(*how)
    ),
    "best-known": st.just(
        {"a": {"scas": {"objective": 5, "proved": True}}, "k": {"": {"objective": 5.5, "proved": False}}}
    ),
}


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """Draw a value of which a key is missing or added, or one part is another one."""
    holder = whole = copy.deepcopy(value)
    while True:
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not holder[key] or not isinstance(holder[key], dict | list) or draw(st.booleans()):
            break
        holder = holder[key]
    way = draw(st.sampled_from(["drop", "add", "replace"])) if isinstance(holder, dict) else "replace"
    if way == "drop":
        del holder[key]
    elif way == "add":
        holder["dcas"] = holder[key]
    else:
        holder[key] = draw(
            st.sampled_from([None, True, -1, 0, 1, 2.5, "", "x", [], {}, [1, 2], ["x"], [0.5], {"x": 1}])
        )
    return whole


@pytest.mark.parametrize("what", OBJECTS)
@settings(max_examples=100)
@given(data=st.data())
def test_a_schema_takes_and_refuses_what_the_reader_does(what: SchemaName, data: st.DataObject) -> None:
    value = data.draw(OBJECTS[what])
    assert validator(what).is_valid(value)
    other = data.draw(changed(value))
    assert validator(what).is_valid(other) is is_read(what, other)
