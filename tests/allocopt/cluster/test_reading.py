"""Topologies in every format: Slurm's two, Kubernetes, GraphML, and the choice between them."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.graphml import graph_of, tree_of_graph
from allocopt.cluster.hostlist import fold_hostlist
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


def conf(folder: Path, text: str) -> NamedTree:
    return read_topology(written(folder, "topology.conf", text))


def conf_fault(folder: Path, text: str) -> str:
    return fault(written(folder, "topology.conf", text))


def test_the_default_topology_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES)
    default = read_topology(path)
    assert default.tree.names == (("b1", "b2", "b3"), ("4-node block 1", "4-node block 2"))
    racks = read_topology(f"{path}#racks")
    assert racks.nodes == ("node01", "node02", "node03", "node04")
    assert racks.tree.hops == (2, 4)
    first = written(tmp_path, "first.yml", TOPOLOGIES.replace("cluster_default: true", "cluster_default: false"))
    assert read_topology(first).nodes == racks.nodes
    odd = written(tmp_path, "odd.yaml", TOPOLOGIES.replace("flat: true", "ring: {rings: []}"))
    assert read_topology(f"{odd}#racks").nodes == racks.nodes, "a kind that is not known does harm to another topology"


BOTH = "  tree: {switches: []}\n  block: {blocks: []}"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("racks", "node[01-02]", "node[01-02", "[0]: tree.switches[1].nodes: 'node[01-02' has a bracket that is not"),
        ("racks", "s[1-2]", "s[1-3]", "[0]: tree.switches[0]: switch 'root' has 's3' below it, which is not given"),
        ("racks", "switch: s2", "swich: s2", "[0]: tree.switches[2].swich: is an unknown key"),
        ("blocks", "[2, 4]", "[2, 3]", "[1]: block.block_sizes: is 2,3, must be rising"),
        ("blocks", "[2, 4]", "two", "[1]: block.block_sizes: is 'two', must be a valid list"),
        ("racks", "flat: true", "flat: [", "line 24, column 1: is not YAML"),
        ("racks", TOPOLOGIES, "", "top level: is null, must be a valid list"),
        ("racks", "racks", "no racks", "there is no topology 'racks'; there are no racks, blocks, other"),
        ("other", "", "", "[2]: topology 'other' is flat and names no nodes"),
        (
            "other",
            "flat: true",
            "star: {}",
            "[2]: topology 'other' has 'star', must be one of tree, block, ring,",
        ),
        ("other", "  flat: true", BOTH, "[2]: topology 'other' is both tree and block"),
    ],
)
def test_an_odd_topology_yaml_gets_a_line_that_names_the_fault(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, "topology.yaml", TOPOLOGIES.replace(old, new) if old else TOPOLOGIES)
    assert fault(f"{path}#{name}").startswith(message)


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


def test_tiers_of_topograph_are_levels(tmp_path: Path) -> None:
    tiers = [
        {f"fabric.topograph.run/tier-{tier}": f"{tier}-{number >> tier}" for tier in (0, 1)} for number in range(4)
    ]
    names = read_topology(kubernetes(tmp_path, *(node(f"w{n}", **one) for n, one in enumerate(tiers)))).tree.names
    assert names == (("0-0", "0-1", "0-2", "0-3"), ("1-0", "1-1"))


def test_nodes_without_a_label_that_is_named_are_left_out_and_remarked(tmp_path: Path) -> None:
    path = kubernetes(tmp_path, node("a", x="1"), node("b", x="2"), node("c"))
    cluster = read_topology(path, ["x"])
    assert cluster.nodes == ("a", "b")
    assert "nodes without all of these labels left out: 1" in cluster.remarks
    with pytest.raises(UsageError, match="name a label twice"):
        read_topology(path, ["x", "x"])


@pytest.mark.parametrize(
    ("nodes", "labels", "message"),
    [
        ([node("a", x="1")], (), "items: no known label of a network topology is on all"),
        ([node("a", x="1")], ("y",), "items: none of the 1 nodes has the labels y"),
        ([node("a", x="1"), node("a", x="2")], ("x",), "items: node 'a' is given twice"),
        ([{"metadata": {}}], ("x",), "items[0]: metadata.name: is missing"),
        ([], ("x",), "items: is missing or empty, must be a list of nodes of Kubernetes"),
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
    with pytest.raises(InvalidProblemError, match="two vertices have the same name"):
        tree_of_graph(graph)


RING = nx.compose(nx.cycle_graph(5), nx.Graph([(number, f"n{number}") for number in range(5)]))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph(), "has no nodes"),
        (nx.cycle_graph(4), "has no nodes"),
        (nx.path_graph(2), "node '0' is linked to no switch"),
        (RING, r"not those of a tree: n1 - n2 3, n1 - n0 3, n2 - n0 4"),
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


@pytest.mark.parametrize("name", ["a b", "a,b", "n[1-2]", "a=b", "n#1", "ALL"])
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


def test_a_recipe_of_flux_is_the_cluster_that_it_makes(tmp_path: Path) -> None:
    assert read_topology(written(tmp_path, "tiny.graphml", RECIPE)).nodes == tuple(f"node{n}" for n in range(16))


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
    with pytest.raises(UsageError, match="labels apply only to nodes of Kubernetes"):
        read_topology(tmp_path / "topology.conf", ["x"])
    assert fault(tmp_path / "none.conf") == "No such file or directory"
    assert fault(written(tmp_path, "x.graphml", "<graphml")).startswith("is not GraphML: ")


def test_a_hash_sign_chooses_a_topology_only_in_the_names_of_yaml_files(tmp_path: Path) -> None:
    folder = tmp_path / "#1"
    folder.mkdir()
    (folder / "rack#2.conf").write_text("SwitchName=s1 Nodes=n[1-4]\n", encoding="utf-8")
    assert len(read_topology(folder / "rack#2.conf").nodes) == 4
    assert topology_file("a#b/site.yaml#gpu") == (Path("a#b/site.yaml"), "gpu")
    assert topology_file("site.yaml") == (Path("site.yaml"), None)


def test_empty_keys_stand_for_nothing(tmp_path: Path) -> None:
    cluster = conf(tmp_path, "SwitchName=s1 Nodes=n1 Switches=\nSwitchName=s2 Nodes= LinkSpeed=5\n")
    assert cluster.nodes == ("n1",)
    assert cluster.remarks == ("line 2: switch s2 has no nodes left below it: it is left out",)


def test_all_means_the_nodes_of_slurm_conf(tmp_path: Path) -> None:
    text = "Include other.conf\nClusterName=c\nNodeName=DEFAULT CPUs=4\nNODENAME=n[1-2],m1 CPUs=2\nNodeName=x\n"
    (tmp_path / "slurm.conf").write_text(text, encoding="utf-8")
    (tmp_path / "other.conf").write_text("NodeName=y\nPartitionName=p Nodes=ALL\n", encoding="utf-8")
    assert conf(tmp_path, "SwitchName=s Nodes=all\n").nodes == ("y", "n1", "n2", "m1", "x")
    (tmp_path / "slurm.conf").unlink()
    assert conf_fault(tmp_path, "SwitchName=s Nodes=ALL") == (
        "line 1: Nodes=ALL means the nodes of slurm.conf, which is not beside this file"
    )


def test_block_sizes_join_blocks_that_follow_each_other(tmp_path: Path) -> None:
    blocks = "".join(f"BlockName=b{number} Nodes=n{number}[1-4]\n" for number in range(6))
    cluster = conf(tmp_path, f"{blocks}BlockSizes=4,8,32\n")
    assert cluster.tree.hops == (2, 4, 6)
    assert [len(names) for names in cluster.tree.names] == [6, 3]
    assert conf(tmp_path, f"{blocks}blocksizes=4,16\n").tree.names[1] == ("16-node block 1", "16-node block 2")
    # As Slurm does without sizes: the nodes of the first block, and 2, 4, 8 and 16 times as many.
    assert conf(tmp_path, blocks).block_sizes == (4, 8, 16, 32)


def test_what_scontrol_shows_is_what_stands_in_the_file(tmp_path: Path) -> None:
    lines = [
        "SwitchName=leaf1{} Nodes=n[1-2]",
        "SwitchName=leaf2{} Nodes=n[3-4]",
        "SwitchName=root{} Switches=leaf[1-2]",
    ]
    levels = (f" Level={level} LinkSpeed=1" + level * " Nodes=n[1-4]" for level in (0, 0, 1))
    printed = "\n".join(line.format(more) for line, more in zip(lines, levels, strict=True))
    cluster, expected = conf(tmp_path, printed), conf(tmp_path, "\n".join(line.format("") for line in lines))
    assert (cluster.nodes, cluster.remarks) == (expected.nodes, ())
    assert cluster.is_like(expected.tree)
    blocks = [f"BlockName=b{number}{{}} Nodes=n{number}[1-4]{{}}\n" for number in range(4)]
    printed = "".join(line.format(f" BlockIndex={number}", " BlockSize=4") for number, line in enumerate(blocks))
    joined = "AggregatedBlock=b[0-1] BlockIndex=4 Nodes=n[01-04,11-14] BlockSize=8\n"
    expected = conf(tmp_path, "".join(line.format("", "") for line in blocks) + "BlockSizes=4,8\n")
    assert conf(tmp_path, printed + joined).is_like(expected.tree)
    assert conf_fault(tmp_path, f"{printed}AggregatedBlock=b[0-2] Nodes=n1 BlockSize=12") == (
        "line 5: BlockSizes is 4,12, must be rising sizes, each a power of two (at most 2^15) times the first"
    )


def test_an_included_file_stands_where_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "leaves.conf").write_text("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n", encoding="utf-8")
    cluster = conf(tmp_path, "INCLUDE leaves.conf  # both\nSwitchName=top Switches=a,b\n")
    assert cluster.nodes == ("n1", "n2", "n3", "n4")
    assert conf_fault(tmp_path, "\ninclude others.conf") == "line 2: includes 'others.conf', which does not exist"


def test_files_that_include_each_other_or_many_others_are_limited(tmp_path: Path) -> None:
    (tmp_path / "round.conf").write_text("Include round.conf\n", encoding="utf-8")
    assert fault(tmp_path / "round.conf") == "line 1: includes files more than 10 levels deep"
    for number in range(9):
        (tmp_path / f"{number}.conf").write_text(f"Include {number + 1}.conf\n" * 12, encoding="utf-8")
    (tmp_path / "9.conf").write_text("SwitchName=s Nodes=n1\n", encoding="utf-8")
    assert fault(tmp_path / "0.conf").startswith("includes more than 1000 files")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no SwitchName=, BlockName= or NodeName=, must be Slurm's configuration"),
        ("# nothing\n", "has no SwitchName=, BlockName= or NodeName="),
        ("BlockSizes=4", "holds no line with SwitchName= or BlockName="),
        ("SwitchName=s Nodes=n1,\n  n2\n", "line 2: 'n2' is not Key=value; end a line with a backslash"),
        ("\nSwitchName=s Nodes=n1, n2\n", "line 2: 'n2' is not Key=value"),
        ("SwitchName=s Nodes=n[1-2", "line 1: Nodes: 'n[1-2' has a bracket that is not closed"),
        ("SwitchName=t Switches=s[2-1]", "line 1: Switches: 's[2-1]' has the range 2-1, which descends"),
        ("SwitchName=s Node=n1", "line 1: key 'node' is unknown beside SwitchName; keys are SwitchName, Nodes, Sw"),
        ("SwitchName=s Nodes=a nodes=b", "line 1: key nodes is given twice"),
        ("SwitchName= Nodes=a", "line 1: SwitchName is empty"),
        ("NodeName=a", "names no switches; it describes nodes, so give it with --cluster"),
        ("SwitchName=s Nodes=n\x1b[0m", "line 1: Nodes: 'n\\x1b[0m' has a bracket"),
        ("SwitchName=s Nodes=n\x1b", "topology nodes: node 'n\\x1b' has a control character in its name"),
        (f"include a{' ' * 1_000_000}b", "line 1: includes 'a     "),
        (f"SwitchName=s Nodes=n1 {'k' * 5000}=1", "line 1: key 'kkk"),
        ("Include=x.conf", "line 1: begins with 'include', must be one of SwitchName, BlockName, BlockSizes"),
        ("SwitchName=s Nodes=a\n\nSwitchName=s Nodes=b", "line 3: switch 's' is given twice, first at line 1"),
        ("BlockName=b Nodes=a\nSwitchName=s Nodes=b", "line 1: is in a file with SwitchName lines"),
        ("BlockName=b Nodes=a Switches=s", "line 1: key 'switches' is unknown beside BlockName; keys are BlockName"),
        ("BlockName=b Nodes=a\nBlockSizes=2,6", "line 2: BlockSizes is 2,6, must be rising sizes, each a power of two"),
        ("BlockName=b Nodes=a\nBlockSizes=4,2", "line 2: BlockSizes is 4,2, must be rising"),
        ("BlockName=b Nodes=a\nBlockSizes=0", "line 2: BlockSizes is 0, must be rising"),
        ("BlockName=b Nodes=a\nBlockSizes=4-8", "line 2: BlockSizes is '4-8', must be numbers of nodes such as 4,16"),
        ("BlockName=b Nodes=a\nBlockSizes=1\nBlockSizes=2", "line 3: BlockSizes is given twice, first at line 2"),
    ],
)
def test_an_odd_file_gets_a_line_that_names_the_fault(tmp_path: Path, text: str, message: str) -> None:
    found = conf_fault(tmp_path, text)
    assert found.startswith(message)
    assert found.isprintable()


def test_more_nodes_than_a_cluster_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.cluster.hostlist.LARGEST_CLUSTER", 100)
    found = conf_fault(tmp_path, "SwitchName=a Nodes=n[0-98]\nSwitchName=b Nodes=m[0-9]")
    assert found.startswith("line 2: Nodes: 'm[0-9]' brings the number of names above 100")


@st.composite
def written_trees(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """Draw a file of two levels of switches in odd spelling, and the nodes of each leaf."""
    count = iter(range(1000))
    leaves = [[f"n{next(count):03d}" for _ in range(draw(st.integers(1, 4)))] for _ in range(draw(st.integers(1, 6)))]
    spell, spaced = st.sampled_from([str, str.lower, str.upper]), st.sampled_from(["{}={}", " {} = {}"])
    joints = st.sampled_from([",", ",\\\n", ",\\ \n  ", ",\\  # more\n        "])
    ends = st.sampled_from(["", " # end", " # SwitchName=no Nodes=none", " LinkSpeed=1", "  ", "\n# ends so \\"])
    lines = [
        draw(spaced).format(draw(spell)("SwitchName"), f"leaf{number} ")
        + draw(spaced).format(
            draw(spell)("Nodes"),
            draw(st.sampled_from(["{}", '"{}"'])).format(fold_hostlist(nodes))
            if draw(st.booleans())
            else draw(joints).join(nodes),
        )
        + draw(ends)
        for number, nodes in enumerate(leaves)
    ]
    lines.append(f"SwitchName=root Switches={fold_hostlist(f'leaf{number}' for number in range(len(leaves)))}")
    return draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines), leaves


@given(written_trees())
def test_any_spelling_gives_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory, written: tuple[str, list[list[str]]]
) -> None:
    text, leaves = written
    cluster = conf(tmp_path_factory.mktemp("slurm"), text)
    assert cluster.nodes == tuple(node for leaf in leaves for node in leaf)
    expected = np.repeat(np.arange(len(leaves)), [len(leaf) for leaf in leaves])
    assert cluster.tree.groups[0].tolist() == expected.tolist()


def test_names_that_slurm_cannot_read_are_written_plain_and_differ(tmp_path: Path) -> None:
    leaves = [Switch(f"b{number}", (f"n{number}",)) for number in range(2)]
    above = [Switch("2-node block 1", (), ("b0", "b1")), Switch("2-node,block 1", (), ("top",))]
    names = tuple(switch.name for switch in above)
    cluster = tree_of_switches([*leaves, Switch("top", ("m",)), *above, Switch("all", (), names)])
    write_topology(tmp_path / "out.conf", cluster)
    lines = (tmp_path / "out.conf").read_text(encoding="utf-8").splitlines()
    assert "SwitchName=2-node-block-1 Switches=b[0-1]" in lines
    assert lines[-1] == "SwitchName=top-2 Switches=2-node-block-1,2-node-block-1-2"
    assert read_topology(tmp_path / "out.conf").is_like(cluster.tree)


def test_a_switch_that_stands_for_two_levels_is_written_once(tmp_path: Path) -> None:
    text = "SwitchName=r Switches=a,m\nSwitchName=m Switches=b,c\nSwitchName=a Nodes=a1\nSwitchName=b Nodes=b1\n"
    cluster = conf(tmp_path, f"{text}SwitchName=c Nodes=c1\n")
    write_topology(tmp_path / "out.conf", cluster)
    assert (tmp_path / "out.conf").read_text(encoding="utf-8").splitlines() == [
        "SwitchName=a Nodes=a1",
        "SwitchName=b Nodes=b1",
        "SwitchName=c Nodes=c1",
        "SwitchName=m Switches=b,c",
        "SwitchName=top Switches=a,m",
    ]
    assert read_topology(tmp_path / "out.conf").is_like(cluster.tree)
