"""Machines: pools, whole nodes, and nodes of parts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.platform import Part, Platform
from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError

CORE = Part(8, {"cores": 1}, {"clock_ghz": 2.4})
CPU = Part(2, {"caches": 1}, parts=(CORE,))
NODE = Part(3, {"memory_mb": 64_000}, parts=(CPU, Part(4, {"gpus": 1})))
THIN = Part(2, {"cores": 16})


def test_a_pool_counts_processors_only() -> None:
    pool = Platform.pool(12)
    assert (pool.resources, pool.size, pool.total.tolist()) == (("processors",), 12, [12])
    assert not pool.has_nodes
    assert not pool.is_shared


def test_whole_nodes_come_from_a_number_or_a_topology() -> None:
    tree = FatTree(2, 3, 4)
    for platform in (Platform.whole_nodes(24), Platform.whole_nodes(tree)):
        assert (platform.resources, platform.size, platform.capacity.shape) == (("nodes",), 24, (24, 1))
        assert platform.has_nodes
        assert not platform.is_shared
    assert Platform.whole_nodes(tree).topology is tree
    assert Platform.whole_nodes(24).topology is None


def test_a_node_has_what_its_processors_and_their_cores_have() -> None:
    assert [NODE.units(name) for name in ("cores", "caches", "gpus", "memory_mb", "disks")] == [16, 2, 4, 64_000, 0]


def test_nodes_of_parts_are_counted_in_the_order_of_their_numbers() -> None:
    platform = Platform.of_parts([NODE, THIN])
    assert platform.resources == ("cores", "memory_mb", "caches", "gpus")
    assert platform.capacity.tolist() == [[16, 64_000, 2, 4]] * 3 + [[16, 0, 0, 0]] * 2
    assert platform.total.tolist() == [80, 192_000, 6, 12]
    assert platform.size == 80
    assert platform.is_shared
    assert platform.parts == (NODE, THIN)


def test_the_first_resource_is_the_one_asked_for() -> None:
    platform = Platform.of_parts([NODE], first="gpus")
    assert (platform.resources[0], platform.size) == ("gpus", 12)


parts = st.recursive(
    st.builds(Part, st.integers(1, 3), st.dictionaries(st.sampled_from(["cores", "gpus"]), st.integers(0, 3))),
    lambda below: st.builds(
        Part,
        st.integers(1, 3),
        st.dictionaries(st.sampled_from(["cores", "memory"]), st.integers(0, 3)),
        parts=st.lists(below, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


def count(part: Part, resource: str) -> int:
    """Count the units of a resource one by one."""
    below = [count(each, resource) for each in part.parts for _ in range(each.count)]
    return part.resources.get(resource, 0) + sum(below)


@given(kinds=st.lists(parts, min_size=1, max_size=3))
def test_units_are_those_of_every_part_counted_one_by_one(kinds: list[Part]) -> None:
    nodes = [part for part in kinds for _ in range(part.count)]
    cores = [count(part, "cores") for part in nodes]
    if not any(cores):
        with pytest.raises(InvalidProblemError, match="hold some cores"):
            Platform.of_parts(kinds)
        return
    platform = Platform.of_parts(kinds)
    assert platform.capacity.tolist() == [[count(part, name) for name in platform.resources] for part in nodes]
    assert platform.size == sum(cores)


def test_what_a_platform_is_made_of_cannot_be_changed() -> None:
    platform = Platform.of_parts([NODE])
    with pytest.raises(ValueError, match="read-only"):
        platform.capacity[0, 0] = 99
    with pytest.raises(TypeError):
        NODE.resources["gpus"] = 9  # type: ignore[index]
    given: dict[str, int] = {"cores": 1}
    part = Part(1, given)
    given["cores"] = 7
    assert part.units("cores") == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Platform.pool(0), "has 0 processors, must have at least 1"),
        (lambda: Platform.pool(-3), "has -3 processors"),
        (lambda: Platform.whole_nodes(0), "at least"),
        (lambda: Platform.of_parts([]), "at least"),
        (lambda: Platform.of_parts([Part(2, {"gpus": 1})]), "hold some cores"),
        (lambda: Platform(("cores",), np.array([[1, 2]])), r"has shape \(1, 2\)"),
        (lambda: Platform(("cores",), np.array([4])), r"has shape \(1,\)"),
        (lambda: Platform(("cores",), np.array([[4], [-1]])), "must not be negative"),
        (
            lambda: Platform(("nodes",), np.array([[1]]), topology=FatTree(1, 1, 4)),
            "connects 4 nodes, .* has 1",
        ),
        (lambda: Part(0), "has count 0, must be at least 1"),
        (lambda: Part(1, {"gpus": -2}), "has -2 units of 'gpus'"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        make()
