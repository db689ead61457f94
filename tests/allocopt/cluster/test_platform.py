"""Platforms, and the files that describe them."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cli.schema import _json_schema
from allocopt.cluster.multicore import ContentionConstants, Machine, PowerConstants
from allocopt.cluster.platform import Part, Platform
from allocopt.cluster.platform_files import read_machine
from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidProblemError

CPU = Part(2, {"caches": 1}, parts=(Part(8, {"cores": 1}, {"clock_ghz": 2.4}),))
NODE = Part(3, {"memory_mb": 64_000}, parts=(CPU, Part(4, {"gpus": 1})))
THIN = Part(2, {"cores": 16})
TREE = FatTree(2, 3, 4)


@pytest.mark.parametrize(
    ("platform", "resource", "shape", "has_nodes"),
    [
        (Platform.pool(24), "processors", (1, 1), False),
        (Platform.whole_nodes(24), "nodes", (24, 1), True),
        (Platform.whole_nodes(TREE), "nodes", (24, 1), True),
    ],
)
def test_pools_and_whole_nodes_have_one_resource(
    platform: Platform, resource: str, shape: tuple[int, int], has_nodes: bool
) -> None:
    assert (platform.resources, platform.size, platform.total.tolist()) == ((resource,), 24, [24])
    assert (platform.capacity.shape, platform.has_nodes, platform.is_shared) == (shape, has_nodes, False)
    assert platform.topology in (None, TREE)


def test_nodes_of_parts_are_counted_in_the_order_of_their_numbers() -> None:
    platform = Platform.of_parts([NODE, THIN])
    assert platform.resources == ("cores", "memory_mb", "caches", "gpus")
    assert platform.capacity.tolist() == [[16, 64_000, 2, 4]] * 3 + [[16, 0, 0, 0]] * 2
    assert platform.total.tolist() == [80, 192_000, 6, 12]
    assert platform.is_shared
    assert platform.parts == (NODE, THIN)
    by_gpu = Platform.of_parts([NODE], first="gpus")
    assert (by_gpu.resources[0], by_gpu.size) == ("gpus", 12)


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
        with pytest.raises(InvalidProblemError, match="some node must have cores"):
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
        (lambda: Platform.of_parts([Part(2, {"gpus": 1})]), "some node must have cores"),
        (lambda: Platform(("cores",), np.array([[1, 2]])), r"has shape \(1, 2\)"),
        (lambda: Platform(("cores",), np.array([4])), r"has shape \(1,\)"),
        (lambda: Platform(("cores",), np.array([[4], [-1]])), "must not be negative"),
        (lambda: Platform(("nodes",), np.array([[1]]), topology=FatTree(1, 1, 4)), "connects 4 nodes, .* has 1"),
        (lambda: Part(0), "has count 0, must be at least 1"),
        (lambda: Part(1, {"gpus": -2}), "has -2 units of 'gpus'"),
    ],
)
def test_a_machine_that_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        make()


CONSTANTS = {"b": -1.85e-5, "c": 32000, "da": 1.75, "db": 3500, "dc": 45000, "dd": 3000}
TOML = """
format = "allocopt-platform"
version = 1
name = "two clusters"

[processors.fast]
cores = 4
clock_ghz = 3.4
bandwidth_mb_s = 38400
contention = { b = -1.85e-5, c = 32000, da = 1.75, db = 3500, dc = 45000, dd = 3000 }
power = { core_w = 6.14, processor_w = 5.59, idle_w = 0.28, stalled = 0.5 }

[processors.slow]
cores = 2
clock_ghz = 1.7

[nodes.twin]
processors = ["fast", "fast"]
memory_mb = 8000

[nodes.small]
processors = ["slow"]

[[clusters]]
name = "first"
nodes = [{ type = "twin", count = 2 }, { type = "small", count = 1, names = ["login"] }]

[[clusters]]
name = "second"
nodes = [{ type = "small" }]
"""


def own() -> dict[str, Any]:
    return tomllib.loads(TOML)


def irmasim() -> dict[str, Any]:
    """Return a small file of IRMaSim's."""
    return {
        "platform": {"p": {"id": "p", "model_name": "modelV1", "clusters": [{"id": "c", "nodes": [{"type": "n"}]}]}},
        "node": {"n": {"processors": [{"type": "k", "number": 2}], "memory": {"type": "DDR", "capacity": 32}}},
        "processor": {"k": {"cores": 4, "clock_rate": 3.4, "dpflops_per_cycle": 4, **CONSTANTS, "pa": 6.14, "pb": 5.6}},
    }


def written(folder: Path, obj: object, name: str = "platform.json") -> Path:
    path = folder / name
    path.write_text(obj if isinstance(obj, str) else json.dumps(obj), encoding="utf-8")
    return path


def test_our_own_toml_is_read_and_so_is_json_that_fits_the_schema(tmp_path: Path) -> None:
    machine = read_machine(written(tmp_path, TOML, "platform.toml"))
    nodes = list(machine.nodes())
    assert [cluster.name for cluster in machine.clusters] == ["first", "second"]
    assert [node.name for node in nodes] == ["twin-1", "twin-2", "login", "small"]
    assert [node.cores for node in nodes] == [8, 8, 2, 2]
    assert (nodes[0].memory_mb, nodes[2].memory_mb) == (8000, None)
    fast = nodes[0].processors[0]
    assert fast.contention == ContentionConstants(**CONSTANTS)
    assert fast.power == PowerConstants(6.14, 5.59, 0.28, 0.5)
    assert machine.cores == 20
    assert machine.platform().capacity[:, 0].tolist() == [8, 8, 2, 2]
    jsonschema.validate(own(), _json_schema("platform"))
    assert read_machine(f"{written(tmp_path, own())}#two clusters") == machine
    without = changed(own(), "processors.fast.bandwidth_mb_s", None)
    assert next(read_machine(written(tmp_path, without)).processors()).bandwidth == 32_000


def changed(obj: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Set the value at a path of keys and numbers in a file."""
    *above, last = (int(key) if key.isdigit() else key for key in path.split("."))
    inside: Any = obj
    for key in above:
        inside = inside[key]
    inside[last] = value
    return obj


MANY = [{"type": "small", "count": 1_000_000}] * 9
PLATFORM = "<platform>{}</platform>".format


CHANGED: list[tuple[Callable[[], dict[str, Any]], str, Any, str]] = [
    (own, "processors.fast.cores", 0, "processors.fast.cores: is 0, must be greater than or equal to 1"),
    (own, "processors.fast.clock", 1, "processors.fast.clock: is an unknown key"),
    (own, "processors.fast.contention.b", 1, "processors.fast.contention.b: is 1, must be less than 0"),
    (own, "nodes.twin.processors", ["x"], "has the unknown processor 'x', must be one of fast, slow"),
    (own, "clusters.1.nodes.0.type", "x", "type 'x' is not among the types of nodes: twin, small"),
    (own, "clusters.0.nodes.0.names", ["a"], "has 1 names for 2 nodes"),
    (own, "clusters.0.nodes.0.names", ["a", "a"], "has two nodes called 'a'"),
    (own, "version", 2, "version: is 2, this program reads version 1"),
    (own, "processors.fast.clock_ghz", 1e-300, "clock_ghz x operations_per_cycle is 1e-300, must be from 1e-09 to 1e"),
    (own, "processors.fast.power", {"core_w": 1e300, "processor_w": 1}, "fast: power: core_w is 1e.300, must be from"),
    (own, "clusters.1.nodes", MANY, "has 9000003 nodes, must be at most 1000000"),
    (irmasim, "processor", {}, "processor: type 'k' is not in the file; set types = FOLDER to the folder"),
    (irmasim, "processor.k.clock_rate", -1, "processor.k: clock_rate: is -1, must be greater than 0"),
    (irmasim, "processor.k.dd", None, "processor.k: has b, c, da, db, dc, but no dd"),
    (irmasim, "processor.k.b", 0.1, "processor.k: contention: b is 0.1, must be negative"),
    (irmasim, "platform", {}, "platform: is missing, must be an object of platforms by name"),
    (irmasim, "platform.q", {}, "holds p, q; choose one as in"),
]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        *(("a.json", json.dumps(changed(make(), path, value)), fault) for make, path, value, fault in CHANGED),
        ("a.json", "[1]", "top level: is a list, must be an object"),
        ("a.toml", "a = ", "is not TOML: "),
        ("a.toml", f"a = {'9' * 5000}", r"is not TOML: .*digits"),
        ("a.xml", "<platform>", "is not XML: no element found: line 1, column 10$"),
        ("a.xml", PLATFORM("<host speed='1Gf'/>"), "host '': has no id"),
        ("a.xml", "<html/>", "is XML with the root 'html', must be 'platform'"),
        ("a.xml", PLATFORM(""), "holds neither a host nor a cluster"),
        ("a.xml", PLATFORM("<host id='a'/>"), "host 'a': speed is '', must be a speed such as 1.5Gf"),
        ("a.xml", PLATFORM("<host id='a' speed='1Gf' core='0'/>"), "host 'a': core is '0', must be a positive"),
        ("a.xml", PLATFORM(f"<host id='a' speed='1Gf' core='000000001{'9' * 5000}'/>"), "host 'a': core is '0"),
        ("a.xml", PLATFORM("<cluster id='c' radical='5-1' speed='1Gf'/>"), "cluster 'c': radical has '5-1'"),
        (
            "a.xml",
            PLATFORM(f"<cluster id='c' radical='{','.join(['0-999999'] * 9)}' speed='1Gf'/>"),
            "platform: has 9000000 nodes, must be at most 1000000",
        ),
        ("a.xml", "<!DOCTYPE p [<!ENTITY a 'b'>]><platform/>", "declares entities"),
        (
            "a.xml",
            PLATFORM("<host id='a' speed='1Gf'><prop id='watt_per_state' value='9'/></host>"),
            "host 'a': wattage_per_state is '9', must be IDLE:ALL or IDLE:PROCESSOR:ALL",
        ),
    ],
)
def test_a_file_that_describes_no_platform_is_told_in_one_line(
    tmp_path: Path, name: str, text: str, fault: str
) -> None:
    with pytest.raises(BadFileError, match=fault) as raised:
        read_machine(written(tmp_path, text, name))
    assert "\n" not in str(raised.value)
    assert name in str(raised.value)


def test_no_other_than_the_only_platform_of_a_file_may_be_named(tmp_path: Path) -> None:
    for path in (written(tmp_path, own()), written(tmp_path, TOML, "a.toml"), written(tmp_path, "<a/>", "a.xml")):
        with pytest.raises(BadFileError, match="'q' cannot be chosen"):
            read_machine(f"{path}#q")


def test_a_platform_of_irmasim_is_read(tmp_path: Path) -> None:
    (node,) = read_machine(written(tmp_path, irmasim())).nodes()
    assert (node.name, node.cores, node.memory_mb) == ("n", 8, 32000)
    kind = node.processors[0]
    assert kind.core_speed == pytest.approx(13.6)
    assert kind.contention == ContentionConstants(**CONSTANTS)
    assert kind.power == PowerConstants(6.14, 5.6, 0.05 * 5.6)


def test_one_of_several_platforms_is_chosen_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, changed(irmasim(), "platform.q", irmasim()["platform"]["p"]))
    assert read_machine(f"{path}#q").cores == 8
    with pytest.raises(BadFileError, match="has no 'r'; it holds p, q"):
        read_machine(f"{path}#r")


def test_types_that_a_file_leaves_out_come_from_the_library(tmp_path: Path, shared_data: Path) -> None:
    folder = shared_data / "irmasim" / "irmasim" / "data"

    def machine(types: dict[str, int]) -> Machine:
        nodes = [{"type": name, "number": count} for name, count in types.items()]
        platform = {"p": {"clusters": [{"id": "c", "nodes": nodes}]}}
        return read_machine(written(tmp_path, {"platform": platform}), folder)

    some = machine({"n1112": 2, "n1143": 1})
    assert [node.name for node in some.nodes()] == ["n1112-1", "n1112-2", "n1143"]
    assert [kind.clock_ghz for kind in some.processors()] == [3.4, 3.4, 2.5]
    types = [name for name in json.loads((folder / "node_types.json").read_text()) if name.startswith("n1")]
    assert machine(dict.fromkeys(types, 1)).cores == 4 * len(types)


def test_nodes_of_one_name_in_two_clusters_are_told_apart(tmp_path: Path) -> None:
    clusters = [{"id": name, "nodes": [{"type": "n"}]} for name in "cd"]
    machine = read_machine(written(tmp_path, changed(irmasim(), "platform.p.clusters", clusters)))
    assert [node.name for node in machine.nodes()] == ["c.n-1", "d.n-1"]


XML = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="AS0" routing="Full">
  <host id="master_host" speed="1Gf"/>
  <host id="alone" speed="2.5Gf" core="4"><prop id="wattage_per_state" value="10:15:35, 9:14:20"/></host>
  <cluster id="c" prefix="n-" suffix=".x" radical="0-2,7" speed="16.673E9flops" core="8" bw="1Gbps" lat="0"/>
</zone></platform>
"""


def test_a_platform_of_batsim_is_read(tmp_path: Path) -> None:
    machine = read_machine(written(tmp_path, XML, "platform.xml"))
    nodes = list(machine.nodes())
    assert [node.name for node in nodes] == ["alone", "n-0.x", "n-1.x", "n-2.x", "n-7.x"]
    assert [node.cores for node in nodes] == [4, 8, 8, 8, 8]
    assert nodes[1].processors[0].core_speed == pytest.approx(16.673)
    assert nodes[0].processors[0].power == PowerConstants(5.0, 15.0, 10.0)


def test_a_real_platform_of_batsim_is_read(shared_data: Path) -> None:
    machine = read_machine(shared_data / "g5k_oar" / "graphene.xml")
    assert machine.cores == 144
    assert [len(cluster.nodes) for cluster in machine.clusters] == [39, 35, 30, 40]
