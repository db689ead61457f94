"""The published JSON Schema says what the readers read."""

from typing import Any

import pytest

from allocopt.cli.schema import SchemaName, _json_schema

HEAD = {"format": "allocopt-instance", "version": 1}
SOLVED = {"format": "allocopt-solution", "version": 1, "status": "OPTIMAL", "objective": 1.5, "bound": 1.5}
INSTANCE: dict[str, Any] = {
    **HEAD,
    "kind": "topology",
    "name": "a",
    "topology": {"kind": "tree", "levels": [{"x": [0, 1], "y": [2]}, {"top": ["x", "y"]}], "pairs": "unordered"},
    "idle_nodes": [0, 2],
    "jobs": [{"id": "1", "nodes": 2}],
}
RULED = {
    "id": "1",
    "nodes": 2,
    "only_in": [{"level": "leaf", "groups": ["x", 1]}],
    "not_in": [],
    "within": 1,
    "prefer": {"level": "leaf", "penalty": 5},
    "segments": {"nodes": 2, "level": 1},
}
KNAPSACK: dict[str, Any] = {
    **HEAD,
    "kind": "knapsack",
    "name": "k",
    "capacity": {"nodes": 5},
    "jobs": [{"id": "1", "request": {"nodes": 2}, "wait_s": 5, "estimate_s": 60, "value": 1.5}],
}
SELECTED = {**SOLVED, "instance": "k", "solver": "dp", "selected": ["1"]}
COALLOCATION: dict[str, Any] = {
    **HEAD,
    "kind": "coallocation",
    "name": "c",
    "hosts": [{"id": "h", "cores": 8, "profile": [{"share": 1, "cpu": 0.5}], "remaining_s": 60, "walltime_s": 90}],
    "guests": [{"id": "g", "cores": 2, "profile": [{"share": 1, "cpu": 1}], "remaining_s": 30, "walltime_s": 40}],
    "quotas": [0.25, 0.5],
    "max_slowdown": 1.5,
}
PLACED = {**SOLVED, "instance": "c", "solver": "scip", "placements": [{"guest": "g", "host": "h", "quota": 0.25}]}
OPTIONAL = {
    "max_guest_slowdown", "max_guests", "objective", "degradation_weight", "sharing", "interference", "pairs",
}  # fmt: skip
FAT_TREE = {"kind": "fat-tree", "pods": 1, "leaves_per_pod": 1, "nodes_per_leaf": 3, "hops": [1, 2, 3]}
OPEN = {**SOLVED, "bound": None}
SOLUTION = {**OPEN, "instance": "a", "strategy": "free", "solver": "dp", "allocation": {"1": [0, 2]}}
BEST_KNOWN = {"a": {"scas": {"objective": 5, "proved": True}}}
GOOD: list[tuple[SchemaName, Any]] = [
    ("instance", INSTANCE),
    ("instance", {**INSTANCE, "topology": FAT_TREE, "hop_cost": 0.5}),
    ("instance", {**INSTANCE, "jobs": [RULED], "fragmentation_weight": 0.5}),
    ("solution", SOLUTION),
    ("solution", {**SOLUTION, "objective": None, "allocation": None, "status": "UNKNOWN", "seed": 3}),
    ("solution", {**SOLUTION, "strategy": "dcas", "order": ["1"]}),
    ("best-known", BEST_KNOWN),
    ("best-known", {"k": {"": {"objective": 5, "proved": True}}}),
    ("instance", KNAPSACK),
    ("instance", {**KNAPSACK, "objective": "linear", "weights": [1, 0, 0.5], "slots": [2, 3], "used": {"nodes": 1}}),
    ("solution", SELECTED),
    ("solution", {**SELECTED, "strategy": None, "slots": {"1": 0}}),
    ("instance", COALLOCATION),
    ("instance", {**COALLOCATION, "objective": "response", "sharing": "shares", "interference": {"io": 0.5}}),
    ("instance", {**COALLOCATION, "pairs": [{"host": "h", "guest": "g", "host_slowdown": 1, "guest_slowdown": 2}]}),
    ("solution", PLACED),
    ("solution", {**PLACED, "placements": None, "objective": None, "status": "UNKNOWN"}),
]
BAD: list[tuple[SchemaName, Any]] = [
    ("instance", {**INSTANCE, "version": 2}),
    ("instance", {**INSTANCE, "strategy": "free"}),
    ("instance", {**INSTANCE, "idle_nodes": [0, 2.5]}),
    ("instance", {**INSTANCE, "jobs": [{"id": 1, "nodes": 2}]}),
    ("instance", {**INSTANCE, "topology": {**FAT_TREE, "pods": 0}}),
    ("instance", {**INSTANCE, "hop_cost": 0}),
    ("instance", {**KNAPSACK, "idle_nodes": [1]}),
    ("instance", {**KNAPSACK, "objective": "best"}),
    ("instance", {**KNAPSACK, "capacity": {"nodes": 0.5}}),
    ("instance", {**KNAPSACK, "weights": [1, 2]}),
    ("instance", {**COALLOCATION, "quotas": []}),
    ("instance", {**COALLOCATION, "max_slowdown": 0.5}),
    ("instance", {**COALLOCATION, "hosts": [{**COALLOCATION["hosts"][0], "wait_s": 5}]}),
    ("solution", {**PLACED, "placements": [{"guest": "g", "host": "h"}]}),
    ("solution", {**PLACED, "selected": ["g"]}),
    ("solution", {**SELECTED, "strategy": "free"}),
    ("solution", {**SELECTED, "selected": ["1"], "allocation": {"1": [0]}}),
    ("solution", {**SOLUTION, "status": "optimal"}),
    ("solution", {key: value for key, value in SOLUTION.items() if key != "bound"}),
    ("solution", {**SOLUTION, "order": [1]}),
]


@pytest.mark.parametrize(
    ("what", "model", "example", "optional"),
    [
        ("instance", "TopologyInstanceModel", INSTANCE, {"hop_cost", "fragmentation_weight"}),
        ("instance", "KnapsackInstanceModel", KNAPSACK, {"objective", "weights", "total", "used", "slots"}),
        ("solution", "TopologySolutionModel", SOLUTION, {"seed", "solver_version", "order"}),
        ("solution", "KnapsackSolutionModel", SELECTED, {"strategy", "seed", "solver_version", "slots"}),
        ("instance", "CoallocationInstanceModel", COALLOCATION, OPTIONAL),
        ("solution", "CoallocationSolutionModel", PLACED, {"strategy", "seed", "solver_version"}),
    ],
)
def test_a_schema_requires_and_allows_the_keys_of_the_format(
    what: SchemaName, model: str, example: dict[str, Any], optional: set[str]
) -> None:
    whole: Any = _json_schema(what)
    schema = whole["$defs"][model]
    assert {"$ref": f"#/$defs/{model}"} in whole["anyOf"]
    assert sorted(schema["required"]) == sorted(example)
    assert schema["properties"].keys() - example.keys() == optional
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("what", "example", "is_valid"), [*((*one, True) for one in GOOD), *((*one, False) for one in BAD)]
)
def test_a_schema_takes_and_refuses_what_the_reader_does(what: SchemaName, example: Any, is_valid: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert jsonschema.Draft202012Validator(_json_schema(what)).is_valid(example) is is_valid
