"""Every fault of an instance file is one line: file, place, what is wrong and what would be right."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.problems.instances import object_from_problem, problem_from_object, read_problems

GOOD: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "topology",
    "name": "good",
    "topology": {"kind": "fat-tree", "pods": 2, "leaves_per_pod": 2, "nodes_per_leaf": 5},
    "idle_nodes": [3, 4, 17, 12, 0],
    "jobs": [{"id": "1", "nodes": 2}, {"id": "2", "nodes": 1}, {"id": "3", "nodes": 2}],
    "hop_cost": 1000,
}
TREE: dict[str, Any] = {
    **GOOD,
    "topology": {
        "kind": "tree",
        "levels": [{"a": [0, 3, 4], "b": [1, 2]}, {"left": ["a"], "right": ["b"]}],
        "hops": [2, 4, 6],
    },
    "idle_nodes": [0, 1, 2, 3, 4],
}
RULED: dict[str, Any] = {
    **GOOD,
    "jobs": [
        {
            "id": "1",
            "nodes": 2,
            "only_in": [{"level": "pod", "groups": [1]}, {"level": 1, "groups": [3]}],
            "not_in": [{"level": "leaf", "groups": [2]}],
            "within": "pod",
            "prefer": {"level": "leaf", "penalty": 2.5},
            "segments": {"nodes": 2, "level": "leaf"},
        }
    ],
    "fragmentation_weight": 0.25,
}
SEGMENTS = [{"nodes": 2, "level": 2}, {"nodes": 1, "level": 1}]
NAMED = {**TREE, "jobs": [{"id": "1", "nodes": 2, "not_in": [{"level": 1, "groups": ["b"]}], "segments": SEGMENTS}]}
KNAPSACK: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "knapsack",
    "name": "example",
    "capacity": {"nodes": 4360},
    "total": {"nodes": 4392},
    "used": {"nodes": 32},
    "jobs": [{"id": "1", "request": {"nodes": 128}, "wait_s": 60, "estimate_s": 3600, "value": 1.5}],
    "objective": "capability",
    "weights": [0.5, 0.25, 0.25],
}
COALLOCATION: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "coallocation",
    "name": "example",
    "hosts": [
        {
            "id": "h",
            "cores": 64,
            "profile": [
                {"share": 0.25, "cpu": 0.75, "memory": 0.1, "io": 0.5, "kind": "parallel"},
                {"share": 0.75, "cpu": 0.015625, "memory": 0.1, "io": 0, "kind": "sequential"},
            ],
            "remaining_s": 600,
            "walltime_s": 900,
        }
    ],
    "guests": [{"id": "g", "cores": 16, "profile": [{"share": 1, "cpu": 1}], "remaining_s": 300, "walltime_s": 400}],
    "quotas": [0, 0.25, 0.5],
    "max_slowdown": 1.5,
}
BASES = [GOOD, TREE, KNAPSACK, COALLOCATION, RULED, NAMED]
DELETE = object()


def changed(path: str, value: Any, base: dict[str, Any] = GOOD) -> dict[str, Any]:
    """Return a copy with the value at a place such as ``jobs[2].nodes`` replaced, added or deleted."""
    instance = copy.deepcopy(base)
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"[\w-]+", path)]
    target: Any = instance
    for part in parents:
        target = target[part]
    if value is DELETE:
        del target[last]
    else:
        target[last] = value
    return instance


INTEGER = "must be a valid integer"
FAULTS = [
    # place that is changed, new value, place that is named, words of the fault
    ("format", "x", "format", "is 'x', must be 'allocopt-instance'"),
    ("format", DELETE, "format", "is missing, must be 'allocopt-instance'"),
    ("version", 2, "version", "is 2, this program reads version 1"),
    ("version", DELETE, "version", "is missing, must be 1"),
    ("kind", "knapsack", "jobs[0].nodes", "is an unknown key"),
    ("kind", "coallocation", "topology", "is an unknown key"),
    ("kind", "x", "kind", "is 'x', must be 'coallocation' or"),
    ("kind", DELETE, "kind", "is missing"),
    ("name", DELETE, "name", "is missing"),
    ("name", "", "name", "is '', string should have at least 1 character"),
    ("name", "a/b", "name", "holds '/', must be usable as a file name"),
    ("name", "..", "name", "is '..', must be usable as a file name"),
    ("name", "a\0b", "name", "holds the control character U+0000"),
    ("name", "a\u2028b", "name", "holds the control character U+2028"),
    ("name", "\ud800", "name", "must be a valid string"),
    ("name", "ä" * 101, "name", "is 202 bytes long, must be at most 200"),
    ("strategy", "free", "strategy", "is an unknown key"),
    ("a\nb", 1, "a\\nb", "is an unknown key"),
    ("jobs[2].nodse", 2, "jobs[2].nodse", "is an unknown key"),
    ("topology", DELETE, "topology", "is missing"),
    ("topology", [], "topology", "is an empty list, must be a valid dictionary"),
    ("topology.kind", DELETE, "topology", "unable to extract tag using discriminator 'kind'"),
    ("topology.kind", "ring", "topology", "'ring' found using 'kind' does not match any of the expected"),
    ("topology.kind", 1, "topology", "expected tags: 'fat-tree', 'tree'"),
    ("topology.pods", 0, "topology.pods", "is 0, must be greater than or equal to 1"),
    ("topology.pods", 10**15, "topology", "must have at most 10000000"),
    ("topology.pods", 2**63, "topology.pods", "is 9223372036854775808, must be less than or equal to 922"),
    ("topology.hops", [2, 4], "topology.hops", "has 2 values, a fat tree has 3 levels"),
    ("topology.hops", [2, 4, 4], "topology.hops", "must be strictly increasing"),
    (
        "topology.hops",
        [2, 4, 2**63 - 1],
        "topology.hops",
        "must be strictly increasing whole numbers from 0 to 1000000",
    ),
    ("topology.pairs", "both", "topology.pairs", "is 'both', must be 'ordered' or 'unordered'"),
    ("idle_nodes", [], "idle_nodes", "should have at least 1 item"),
    ("idle_nodes", {}, "idle_nodes", "is an empty object, must be a valid list"),
    ("idle_nodes[1]", 20, "idle_nodes[1]", "node 20 is outside 0..19"),
    ("idle_nodes[1]", -1, "idle_nodes[1]", "is -1, must be greater than or equal to 0"),
    ("idle_nodes[4]", 17, "idle_nodes[4]", "node 17 is given twice"),
    ("idle_nodes[1]", "1e3", "idle_nodes[1]", f"is '1e3', {INTEGER}"),
    ("idle_nodes[1]", "9" * 5000, "idle_nodes[1]", f"9..., {INTEGER}"),
    ("jobs", [], "jobs", "should have at least 1 item"),
    ("jobs[1]", 3, "jobs[1]", "is 3, must be a valid dictionary"),
    ("jobs[1].id", "1", "jobs[1].id", "job '1' is given twice"),
    ("jobs[1].id", "\x1b[2J", "jobs[1].id", "holds the control character U+001B"),
    ("jobs[1].nodes", 0, "jobs[1].nodes", "is 0, must be greater than or equal to 1"),
    ("jobs[1].nodes", 2, "jobs", "ask for 6 nodes together, but only 5 are idle"),
    ("hop_cost", 0, "hop_cost", "is 0, must be greater than or equal to 0.000001"),
    ("jobs[0].within", "rack", "jobs[0].within", "is 'rack', must be a level below the top: 1..2 or leaf or pod"),
    ("jobs[0].within", 3, "jobs[0].within", "is 3, must be a level"),
    ("jobs[0].within", 0, "jobs[0].within", "is 0, must be an integer from 1 on or a name"),
    ("jobs[0].segments", {"nodes": 3, "level": 1}, "jobs[0].segments.nodes", "is 3, must divide the 2 nodes"),
    ("jobs[0].segments", {"nodes": 2}, "jobs[0].segments.level", "is missing"),
    ("jobs[0].segments", [{"nodes": 2}], "jobs[0].segments[0].level", "is missing"),
    ("jobs[0].segments", [], "jobs[0].segments", "is an empty list, list should have at least 1 item"),
    ("jobs[0].segments", 2, "jobs[0].segments", "is 2, must be a valid dictionary"),
    (
        "jobs[0].segments",
        [{"nodes": 1, "level": "pod"}, {"nodes": 2, "level": "leaf"}],
        "jobs[0].segments[1].nodes",
        "is 2, must divide the 1 nodes of the segments before it",
    ),
    (
        "jobs[0].segments",
        [{"nodes": 2, "level": "leaf"}, {"nodes": 1, "level": "pod"}],
        "jobs[0].segments[1].level",
        "is level 2, must be below level 1 of the segments before it",
    ),
    ("jobs[0].prefer", {"level": "pod", "penalty": -1}, "jobs[0].prefer.penalty", "is -1, must be greater than"),
    ("jobs[0].only_in", [{"level": "pod", "groups": []}], "jobs[0].only_in[0].groups", "is an empty list, list should"),
    ("jobs[0].only_in", [{"level": "pod", "groups": [2]}], "jobs[0].only_in[0]", "holds 2, must hold a number in 0..1"),
    ("jobs[0].not_in", [{"level": "pod", "groups": ["x"]}], "jobs[0].not_in[0]", "holds 'x', must hold a number"),
    ("fragmentation_weight", -1, "fragmentation_weight", "is -1, must be greater than or equal to 0"),
]
TREE_FAULTS = [
    ("topology.levels", [], "topology.levels", "should have at least 1 item"),
    ("topology.levels[0]", [[1]], "topology.levels[0]", "is a list, must be a valid dictionary"),
    ("topology.levels[0].a", [], "topology.levels[0].a", "should have at least 1 item"),
    ("topology.levels[0].a[1]", 9, "topology.levels[0].a", "holds 9, which is not a node number in 0..4"),
    ("topology.levels[0].a[1]", 2, "topology.levels[0].b", "holds 2, which is in another group already"),
    ("topology.levels[0].a", ["0", "3", "4"], "topology.levels[0].a", "holds '0', which is not a node number in 0..4"),
    ("topology.levels[1].left[0]", "c", "topology.levels[1].left", "holds 'c', which is not a group below"),
    ("topology.levels[1].left", ["b"], "topology.levels[1].right", "holds 'b', which is in another group already"),
    ("topology.levels[1].left", ["a", 0], "topology.levels[1].left[1]", "is 0, must be a valid string"),
    ("topology.levels[1].left", DELETE, "topology.levels[1]", "no group holds 'a'"),
    ("topology.levels[1]", {"": ["a"], "right": ["b"]}, "topology.levels[1]", "a key is '', string should"),
    ("topology.levels[1]", {"\x07": ["a"]}, "topology.levels[1]", "a key holds the control character U+0007"),
    ("topology.hops", [2, 4, 6, 8], "topology.hops", "has 4 values for 2 named levels"),
    (
        "topology.hops",
        [2, 4],
        "topology.levels[1]",
        "is the top level, as there are as many levels as hops; it has 2 groups, must have 1",
    ),
]
KNAPSACK_FAULTS = [
    ("capacity", {}, "capacity", "is an empty object, dictionary should have at least 1 item"),
    ("capacity.nodes", -1, "capacity.nodes", "is -1, must be greater than or equal to 0"),
    ("total.nodes", 100, "total.nodes", "is 100, but 32 units are in use and 4360 are free"),
    ("used", {"cores": 1}, "used", "unknown resource 'cores'; the capacity has nodes"),
    ("jobs", [], "jobs", "is an empty list, list should have at least 1 item"),
    ("jobs[0].request", DELETE, "jobs[0].request", "is missing"),
    ("jobs[0].wait_s", DELETE, "jobs[0].wait_s", "is missing; the objective 'capability' needs it for job '1'"),
    ("objective", "best", "objective", "is 'best', must be 'capability', 'capacity' or 'linear'"),
    ("weights", [1, 2], "weights", "has 2 values, must have 3: w1, w2, w3"),
    ("weights[1]", -2, "weights[1]", "is -2"),
    ("slots", [4000, 400], "slots", "hold 4400 units together, but only 4360 are free"),
]
PAIR = {"host": "h", "guest": "g", "host_slowdown": 1, "guest_slowdown": 1}
COALLOCATION_FAULTS = [
    ("quotas", [1.5], "quotas[0]", "is 1.5, must be less than or equal to 1"),
    ("quotas", [0.95], "quotas[0]", "is 0.95, must be a whole percent within 0 .. 0.9"),
    ("max_slowdown", 0.5, "max_slowdown", "is 0.5, must be greater than or equal to 1"),
    ("objective", "response", "guests[0].wait_s", "is missing"),
    ("pairs", [{**PAIR, "guest": "x"}], "pairs[0].guest", "is 'x', must be the id of a guest"),
    (
        "pairs",
        [PAIR, {**PAIR, "host_slowdown": 2}],
        "pairs[1]",
        "repeats host 'h' and guest 'g'; each pair must be listed once",
    ),
    ("interference", {"paging": 1}, "interference.paging", "is an unknown key"),
    ("hosts[0].profile[0].cpu", DELETE, "hosts[0].profile[0].cpu", "is missing"),
]
ALL_FAULTS = [
    (base, *fault)
    for base, faults in zip(BASES[:4], (FAULTS, TREE_FAULTS, KNAPSACK_FAULTS, COALLOCATION_FAULTS), strict=True)
    for fault in faults
]


def message_of(path: Path) -> str:
    """Read a faulty file; return its one line."""
    with pytest.raises(BadFileError) as caught:
        read_problems(path)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 3
    return str(caught.value)


@pytest.mark.parametrize("base", BASES, ids=lambda base: str(base["kind"]))
def test_the_instances_that_are_changed_below_are_written_as_they_stand(base: dict[str, Any]) -> None:
    held = object_from_problem(problem_from_object(base, "x"))
    # Idle nodes come sorted, and stages of guests with all their demands.
    keys = [key for key in base if key not in ("idle_nodes", "guests")]
    assert [key for key in held if key in keys] == keys
    assert all(held[key] == base[key] for key in keys)


@pytest.mark.parametrize(("base", "changed_at", "value", "place", "words"), ALL_FAULTS)
def test_a_fault_is_one_line_with_file_place_and_words(
    tmp_path: Path, base: dict[str, Any], changed_at: str, value: object, place: str, words: str
) -> None:
    bad = {**base, changed_at: value} if changed_at == "a\nb" else changed(changed_at, value, base)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(bad))
    message = message_of(path)
    assert message.startswith(f"{path}: {place}: ")
    assert words in message


@pytest.mark.parametrize(("base", "changed_at", "value", "place", "words"), ALL_FAULTS[::7])
def test_a_fault_in_a_file_of_several_names_the_line_too(
    tmp_path: Path, base: dict[str, Any], changed_at: str, value: object, place: str, words: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"\n{json.dumps(GOOD)}\n{json.dumps(changed(changed_at, value, base))}\n")
    message = message_of(path)
    assert message.startswith(f"{path}: line 3: {place}: ")
    assert words in message


ONE = json.dumps(GOOD)
NO_OBJECT = ": top level: is .*, must be an object$"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *(("bad.json", json.dumps(value), NO_OBJECT) for value in ([], 3, None, "x", [GOOD])),
        (
            "bad.json",
            json.dumps(changed("idle_nodes", ["1", "2", 3, "4"])),
            r": idle_nodes\[0\]: is '1', must be a valid integer \(and 2 more\)$",
        ),
        (
            "bad.json",
            json.dumps(changed("jobs[1]", {"id": "2", "node": 1})),
            r": jobs\[1\].node: is an unknown key \(and 1 more\)$",
        ),
        ("two.jsonl", f"{ONE}\n\n{ONE}\n", ": line 3: name: is 'good', which line 1 has already$"),
        ("empty.json", "\n", ": is empty, must hold "),
        ("empty.jsonl", "\n", ": is empty, must hold "),
        ("two.json", f"{ONE}\n{ONE}\n", ": line 2, column 1: is not JSON: Extra data"),
        ("cut.jsonl", f"{ONE}\n{ONE[:30]}\n", ": line 2, column 31: is not JSON: "),
    ],
)
def test_no_object_more_faults_an_equal_name_nothing_and_bad_grammar_are_one_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert re.match(re.escape(str(path)) + message, message_of(path))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["a", "tree"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "id", "a", "", "nodes"]), inner)
    ),
    max_leaves=6,
)


def places(value: Any, prefix: tuple[int | str, ...] = ()) -> list[tuple[int | str, ...]]:
    """Every place inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((*prefix, key), *places(item, (*prefix, key)))]


@given(st.data())
def test_whatever_stands_anywhere_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    instance = copy.deepcopy(data.draw(st.sampled_from(BASES)))
    *parents, last = data.draw(st.sampled_from(places(instance)))
    target: Any = instance
    for part in parents:
        target = target[part]
    target[last] = data.draw(values)
    fault = "f.json: read"
    # Any other error than a `BadFileError` goes through.
    try:
        problem_from_object(instance, "f.json")
    except BadFileError as error:
        fault = str(error)
    assert fault.startswith("f.json: ")
    assert len(fault.splitlines()) == 1
