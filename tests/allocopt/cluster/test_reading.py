"""Topologies in ``topology.yaml``, of Kubernetes and in GraphML, and the choice between all formats."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import check_read_or_refused, damaged

from allocopt.cluster.graphml import graph_of, tree_of_graph
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.cluster.reading import read_topology, topology_file, write_topology
from allocopt.errors import BadFileError, InvalidProblemError, MissingPackageError, UsageError

TOPOLOGIES = """---
- topology: racks
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: blocks
  cluster_default: true
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: gpu[1-2]
      - block: b2
        nodes: gpu[3-4]
      - block: b3
        nodes: gpu[5-6]
- topology: other
  flat: true
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def fault(path: Path | str, labels: tuple[str, ...] = ()) -> str:
    with pytest.raises(BadFileError) as raised:
        read_topology(path, labels)
    return str(raised.value).removeprefix(f"{str(path).partition('#')[0]}: ")


def test_the_default_topology_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES)
    default = read_topology(path)
    assert default.tree.names == (("b1", "b2", "b3"), ("4-node block 1", "4-node block 2"))
    racks = read_topology(f"{path}#racks")
    assert racks.nodes == ("node01", "node02", "node03", "node04")
    assert racks.tree.hops == (2, 4)
    first = written(tmp_path, "first.yml", TOPOLOGIES.replace("cluster_default: true", "cluster_default: false"))
    assert read_topology(first).nodes == racks.nodes


BOTH = "  tree: {switches: []}\n  block: {blocks: []}"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("racks", "node[01-02]", "node[01-02", "[0].tree.switches[1].nodes: 'node[01-02' has a bracket that is not"),
        ("racks", "s[1-2]", "s[1-3]", "[0].tree.switches[0]: switch 'root' has 's3' below it, which is not given"),
        ("racks", "switch: s2", "swich: s2", "[0].tree.switches[2].swich: is an unknown key"),
        ("blocks", "[2, 4]", "[2, 3]", "[1].block.block_sizes: is 2,3, must rise"),
        ("blocks", "[2, 4]", "two", "[1].block.block_sizes: is 'two', must be a valid list"),
        ("racks", "flat: true", "flat: [", "line 24, column 1: is not YAML"),
        ("racks", TOPOLOGIES, "", "top level: is null, must be a valid list"),
        ("racks", "racks", "no racks", "there is no topology 'racks'; there are no racks, blocks, other"),
        ("other", "", "", "[2]: topology 'other' is neither tree nor block: it names no nodes"),
        ("other", "flat: true", "ring: {rings: []}", "[2]: topology 'other' has 'ring', must be one of tree, block"),
        ("other", "  flat: true", BOTH, "[2]: topology 'other' is both tree and block"),
    ],
)
def test_an_odd_topology_yaml_gets_a_line_that_names_the_fault(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES.replace(old, new) if old else TOPOLOGIES)
    assert fault(f"{path}#{name}").startswith(message)


def test_a_kind_that_is_not_known_does_no_harm_to_another_topology(tmp_path: Path) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES.replace("flat: true", "ring: {rings: []}"))
    assert len(read_topology(f"{path}#racks").nodes) == 4


def test_without_pyyaml_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES)
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'allocopt\[yaml\]'"):
        read_topology(path)


def node(name: str, **labels: str) -> dict[str, Any]:
    keys = {"zone": "topology.kubernetes.io/zone", "rack": "cloud.provider.com/topology-rack"}
    held = {keys.get(key, key): value for key, value in labels.items()}
    return {"kind": "Node", "metadata": {"name": name, "labels": held, "uid": "1"}, "spec": {}, "status": {"x": [1]}}


def kubernetes(folder: Path, *nodes: dict[str, Any]) -> Path:
    return written(folder, "nodes.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))


def test_labels_of_kubernetes_nodes_are_levels_and_equal_values_in_other_places_are_other_groups(
    tmp_path: Path,
) -> None:
    nodes = [node(f"w{number}", zone=f"z{number // 4}", rack=f"r{number // 2 % 2}") for number in range(8)]
    path = kubernetes(tmp_path, *nodes[::-1], node("boss", **{"node-role.kubernetes.io/control-plane": ""}))
    cluster = read_topology(path)
    assert cluster.tree.hops == (2, 4, 6)
    assert cluster.tree.names == (("z1/r1", "z1/r0", "z0/r1", "z0/r0"), ("z1", "z0"))
    assert cluster.nodes == tuple(f"w{number}" for number in reversed(range(8)))
    assert cluster.remarks == (
        "levels from the top downwards: topology.kubernetes.io/zone, cloud.provider.com/topology-rack",
        "nodes of the control plane left out: 1",
    )
    assert read_topology(path, ["topology.kubernetes.io/zone"]).tree.names == (("z1", "z0"),)


def test_nodes_without_a_label_that_is_named_are_left_out_and_remarked(tmp_path: Path) -> None:
    path = kubernetes(tmp_path, node("a", x="1"), node("b", x="2"), node("c"))
    cluster = read_topology(path, ["x"])
    assert cluster.nodes == ("a", "b")
    assert "nodes without all of these labels left out: 1" in cluster.remarks
    with pytest.raises(UsageError, match="name one twice"):
        read_topology(path, ["x", "x"])


@pytest.mark.parametrize(
    ("nodes", "labels", "message"),
    [
        ([node("a", x="1")], (), "items: no label of a network topology is on all of them: name the keys"),
        ([node("a", x="1")], ("y",), "items: none of the 1 nodes has the labels y"),
        ([node("a", x="1"), node("a", x="2")], ("x",), "items: node 'a' is given twice"),
        ([{"metadata": {}}], ("x",), "items[0].metadata.name: is missing"),
        ([], ("x",), "items: is an empty list, list should have at least 1 item"),
    ],
)
def test_odd_kubernetes_nodes_get_a_line_that_names_the_fault(
    tmp_path: Path, nodes: list[dict[str, Any]], labels: tuple[str, ...], message: str
) -> None:
    assert fault(kubernetes(tmp_path, *nodes), labels).startswith(message)


def fat_tree_graph() -> Any:
    """Two pods of two leaves of three nodes; two switches per pod above the leaves, and two on top."""
    graph = nx.Graph()
    for pod in range(2):
        for leaf in range(2):
            graph.add_edges_from((f"n{pod}{leaf}{number}", f"leaf{pod}{leaf}") for number in range(3))
            graph.add_edges_from((f"leaf{pod}{leaf}", f"pod{pod}{switch}") for switch in range(2))
        graph.add_edges_from((f"pod{pod}{switch}", f"core{switch}") for switch in range(2))
    return graph


def test_in_a_graph_with_cycles_hops_are_counted() -> None:
    graph = fat_tree_graph()
    cluster = tree_of_graph(graph)
    assert cluster.tree.hops == (2, 4, 6)
    assert [len(names) for names in cluster.tree.names] == [4, 2]
    distances = dict(nx.all_pairs_shortest_path_length(graph))
    for first, a in enumerate(cluster.nodes):
        for second, b in enumerate(cluster.nodes[:first]):
            meets = np.flatnonzero(cluster.tree.groups[:, first] == cluster.tree.groups[:, second])
            assert cluster.tree.hops[meets[0] if len(meets) else -1] == distances[a][b]


def test_hops_that_are_not_those_of_a_tree_are_refused() -> None:
    ring = nx.cycle_graph(5)
    ring.add_edges_from((number, f"n{number}") for number in range(5))
    with pytest.raises(InvalidProblemError, match=r"not those of a tree: n1 - n2 3, n1 - n0 3, n2 - n0 4"):
        tree_of_graph(ring)


def test_a_graph_without_cycles_hangs_from_its_center_its_root_or_runs_downwards() -> None:
    assert tree_of_graph(nx.balanced_tree(2, 3)).tree.names == (("3", "4", "5", "6"), ("1", "2"))
    assert tree_of_graph(nx.balanced_tree(2, 3, create_using=nx.DiGraph)).tree.hops == (2, 4, 6)
    path = nx.Graph([("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "b"), ("s1", "c")])
    path.nodes["s1"]["root"] = True
    cluster = tree_of_graph(path)
    assert set(cluster.nodes) == {"a", "b", "c"}
    assert cluster.tree.names[0] == ("s3", "nodes of s1")


def test_vertices_are_what_their_attributes_say() -> None:
    graph = nx.Graph([("rack", "a"), ("rack", "b"), ("rack", "uplink")])
    for vertex, kind in (("a", "host"), ("b", "host"), ("rack", "switch"), ("uplink", "router")):
        graph.nodes[vertex]["type"] = kind
    graph.nodes["a"]["name"] = "alpha"
    assert tree_of_graph(graph).nodes == ("alpha", "b")
    graph.nodes["b"]["name"] = "alpha"
    with pytest.raises(InvalidProblemError, match="two vertices have one name"):
        tree_of_graph(graph)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph(), "has no nodes"),
        (nx.cycle_graph(4), "has no nodes"),
        (nx.path_graph(2), "node '0' is linked to no switch"),
    ],
)
def test_a_graph_that_is_no_cluster_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        tree_of_graph(graph)


def cluster() -> NamedTree:
    switches = [
        Switch("r", (), ("a", "m")),
        Switch("m", (), ("b", "c")),
        Switch("a", ("n1", "n2")),
        Switch("b", ("a1",)),
    ]
    return tree_of_switches([*switches, Switch("c", ("c",))])


@pytest.mark.parametrize("name", ["out.graphml", "out.conf", "out.graphml.gz", "out.conf.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_topology(path, cluster())
    again = read_topology(path)
    assert set(again.nodes) == set(cluster().nodes)
    order = again.numbers(cluster().nodes)
    groups = again.tree.groups[:, order]
    assert [(row[:, None] == row).tolist() for row in groups] == [
        (row[:, None] == row).tolist() for row in cluster().tree.groups
    ]


@pytest.mark.parametrize("name", ["a b", "a,b", "n[1-2]", "a=b", "n#1", "ALL", ""])
def test_a_conf_that_would_not_be_read_again_is_not_written(tmp_path: Path, name: str) -> None:
    odd = tree_of_switches([Switch("s", (name,)), Switch("t", ("n2",))])
    with pytest.raises(BadFileError, match=r"out\.conf: cannot be written: "):
        write_topology(tmp_path / "out.conf", odd)
    write_topology(tmp_path / "out.graphml", odd)
    assert set(read_topology(tmp_path / "out.graphml").nodes) == {name, "n2"}


@pytest.mark.parametrize("name", ["a\nb\tn9", "\x1b[31m", "\u2028"], ids=["line", "escape", "separator"])
def test_a_name_that_breaks_a_line_is_refused_in_every_format(tmp_path: Path, name: str) -> None:
    graph = nx.Graph([("s", 1), ("s", 2)])
    graph.nodes[1]["name"] = name.replace("\x1b", "\u0085")
    texts = {
        "nodes.json": json.dumps({"items": [node(name, zone="z")]}),
        "topology.yaml": json.dumps(
            [{"topology": "t", "tree": {"switches": [{"switch": "s", "nodes": name.replace("[31", "")}]}}]
        ),
        "tree.graphml": "\n".join(nx.generate_graphml(graph)),
    }
    for file, text in texts.items():
        found = fault(written(tmp_path, file, text))
        assert found.isprintable()


RECIPE = """<graphml><key id="m" for="edge" attr.name="multi_scale" attr.type="int"><default>1</default></key>
<key id="g" for="edge" attr.name="gen_method" attr.type="string"><default>MULTIPLY</default></key>
<graph edgedefault="directed"><node id="cluster"/><node id="node"/>
<edge source="cluster" target="node"><data key="m">16</data></edge></graph></graphml>"""


def test_a_recipe_of_flux_is_no_network(tmp_path: Path) -> None:
    assert fault(written(tmp_path, "tiny.graphml", RECIPE)).startswith("is a recipe for the generation of resources")


def test_what_networkx_warns_of_is_not_printed(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    text = '<graphml><key id="k" for="node" attr.name="x"/><graph edgedefault="undirected">'
    text += '<node id="a"><data key="k">1</data><port name="p"/></node>'
    text += '<node id="s"/><node id="b"/><edge source="a" target="s"/><edge source="s" target="b"/></graph></graphml>'
    assert read_topology(written(tmp_path, "odd.graphml", text)).nodes == ("a", "b")
    assert not list(recwarn)


def test_a_graph_says_what_its_vertices_are() -> None:
    graph = graph_of(cluster())
    assert {vertex for vertex, kind in graph.nodes(data="kind") if kind == "node"} == set(cluster().nodes)
    assert graph.nodes["c (level 1)"]["level"] == 1
    assert nx.is_tree(graph)
    assert nx.shortest_path_length(graph, "n1", "c") == 6


def test_other_endings_and_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in \.conf or \.graphml"):
        write_topology(tmp_path / "out.yaml", cluster())
    with pytest.raises(UsageError, match="labels are those of Kubernetes nodes"):
        read_topology(tmp_path / "topology.conf", ["x"])
    assert fault(tmp_path / "none.conf") == "No such file or directory"
    assert fault(written(tmp_path, "x.graphml", "<graphml")).startswith("is not GraphML: ")


WHOLE = {
    "switches.conf": "SwitchName=s1 Nodes=n[1-2,5],m\nSwitchName=s2 \\\n Nodes=x1,x2\nSwitchName=t Switches=s[1-2]\n",
    "blocks.conf": "# blocks\nBlockName=b1 Nodes=a[1-4]\nBlockName=b2 Nodes=a[5-8]\nBlockSizes=4,8\n",
    "topology.yaml": TOPOLOGIES,
    "nodes.json": json.dumps({"items": [node(f"w{number}", zone=f"z{number // 2}") for number in range(4)]}),
    "tree.graphml": "\n".join(nx.generate_graphml(nx.balanced_tree(2, 2))),
}


@pytest.mark.parametrize("name", sorted(WHOLE))
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("damaged"), name, data.draw(damaged(WHOLE[name])))
    check_read_or_refused(path, lambda path: len(read_topology(path).nodes))


def test_a_hash_sign_chooses_a_topology_only_in_the_names_of_yaml_files(tmp_path: Path) -> None:
    folder = tmp_path / "#1"
    folder.mkdir()
    (folder / "rack#2.conf").write_text("SwitchName=s1 Nodes=n[1-4]\n", encoding="utf-8")
    assert len(read_topology(folder / "rack#2.conf").nodes) == 4
    assert topology_file("a#b/site.yaml#gpu") == (Path("a#b/site.yaml"), "gpu")
    assert topology_file("site.yaml") == (Path("site.yaml"), None)
