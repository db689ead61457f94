"""``topology.conf`` of Slurm."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.reading import read_topology
from allocopt.cluster.slurm import write_slurm_topology
from allocopt.errors import BadFileError


def read(folder: Path, text: str) -> NamedTree:
    path = folder / "topology.conf"
    path.write_text(text, encoding="utf-8")
    return read_topology(path)


def fault(folder: Path, text: str) -> str:
    with pytest.raises(BadFileError) as raised:
        read(folder, text)
    message = str(raised.value)
    assert message.startswith(f"{folder / 'topology.conf'}: ")
    return message.removeprefix(f"{folder / 'topology.conf'}: ")


@pytest.mark.parametrize(
    ("name", "nodes", "groups", "hops", "remarks"),
    [
        ("azure-cyclecloud_block_topology.txt", 72, [4], (2, 4), 0),
        ("azure-cyclecloud_slurm_topology.txt", 16, [5], (2, 4), 0),
        ("nsls2-flat.topology.conf", 39, [4], (2, 4), 1),
        ("nstda-tara.topology.conf", 10, [4], (2, 4), 0),
        ("slurm-test-docker-3level.topology.conf", 8, [4, 2], (2, 4, 6), 0),
        ("ubhpc-medium.topology.conf", 234, [3], (2, 4), 0),
    ],
)
def test_real_files_are_read_and_counted(
    shared_data: Path, tmp_path: Path, name: str, nodes: int, groups: list[int], hops: tuple[int, ...], remarks: int
) -> None:
    cluster = read_topology(shared_data / "slurm_topology" / name)
    assert len(cluster.nodes) == nodes
    assert [len(names) for names in cluster.tree.names] == groups
    assert cluster.tree.hops == hops
    assert len(cluster.remarks) == remarks
    write_slurm_topology(tmp_path / "again.conf", cluster)
    again = read_topology(tmp_path / "again.conf")
    assert again.nodes == cluster.nodes
    assert again.is_like(cluster.tree)


def test_every_real_file_is_tried(shared_data: Path) -> None:
    files = sorted((shared_data / "slurm_topology").iterdir())
    assert len(files) >= 6
    assert all(len(read_topology(path).nodes) > 0 for path in files)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (
            "# a comment with SwitchName=no Nodes=none\r\n"
            "switchname=s1 NODES=n[1-2] LinkSpeed=100 # n3\r\n"
            '   SwitchName = s2   Nodes = "n3, n4"\r\n'
            "\r\n"
            "SWITCHNAME=top switches=s[1-2]",
            ["n1", "n2", "n3", "n4"],
        ),
        (
            "SwitchName=s1 \\\n  Nodes=n1,\\\n        n[2-3],\\  # more\n  n4\nSwitchName=s2 Nodes=n5\n",
            ["n1", "n2", "n3", "n4", "n5"],
        ),
        ("# ends with a backslash \\\nSwitchName=s1 Nodes=n1\n", ["n1"]),
    ],
    ids=["any case, comments, quotes, line ends", "a list over lines", "a comment does not go on"],
)
def test_lines_are_spelled_as_slurm_takes_them(tmp_path: Path, text: str, nodes: list[str]) -> None:
    assert list(read(tmp_path, text).nodes) == nodes


def test_empty_keys_stand_for_nothing(tmp_path: Path) -> None:
    cluster = read(tmp_path, "SwitchName=s1 Nodes=n1 Switches=\nSwitchName=s2 Nodes= LinkSpeed=5\n")
    assert cluster.nodes == ("n1",)
    assert cluster.remarks == ("line 2: switch s2 has no nodes left below it: it is left out",)


def test_all_means_the_nodes_of_slurm_conf(tmp_path: Path) -> None:
    text = "Include other.conf\nClusterName=c\nNodeName=DEFAULT CPUs=4\nNODENAME=n[1-2],m1 CPUs=2\nNodeName=x\n"
    (tmp_path / "slurm.conf").write_text(text, encoding="utf-8")
    (tmp_path / "other.conf").write_text("NodeName=y\nPartitionName=p Nodes=ALL\n", encoding="utf-8")
    assert read(tmp_path, "SwitchName=s Nodes=all\n").nodes == ("y", "n1", "n2", "m1", "x")
    (tmp_path / "slurm.conf").unlink()
    assert fault(tmp_path, "SwitchName=s Nodes=ALL") == (
        "line 1: Nodes=ALL means the nodes of slurm.conf, which is not beside this file"
    )


def test_block_sizes_join_blocks_that_follow_each_other(tmp_path: Path) -> None:
    blocks = "".join(f"BlockName=b{number} Nodes=n{number}[1-4]\n" for number in range(6))
    cluster = read(tmp_path, f"{blocks}BlockSizes=4,8,32\n")
    assert cluster.tree.hops == (2, 4, 6)
    assert [len(names) for names in cluster.tree.names] == [6, 3]
    assert read(tmp_path, f"{blocks}blocksizes=4,16\n").tree.names[1] == ("16-node block 1", "16-node block 2")
    assert read(tmp_path, blocks).tree.hops == (2, 4)


def test_a_tree_as_scontrol_shows_it_is_the_tree_of_its_file(tmp_path: Path) -> None:
    printed = (
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2] \n"
        "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4] \n"
        "SwitchName=root Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2] \n"
    )
    plain = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=root Switches=leaf[1-2]\n"
    cluster, expected = read(tmp_path, printed), read(tmp_path, plain)
    assert (cluster.nodes, cluster.remarks) == (expected.nodes, ())
    assert cluster.is_like(expected.tree)


def test_blocks_as_scontrol_shows_them_are_those_of_their_file(tmp_path: Path) -> None:
    blocks = [f"BlockName=b{number}{{}} Nodes=n{number}[1-4]{{}}\n" for number in range(4)]
    printed = "".join(line.format(f" BlockIndex={number}", " BlockSize=4") for number, line in enumerate(blocks))
    joined = "AggregatedBlock=b[0-1] BlockIndex=4 Nodes=n[01-04,11-14] BlockSize=8\n"
    expected = read(tmp_path, "".join(line.format("", "") for line in blocks) + "BlockSizes=4,8\n")
    assert read(tmp_path, printed + joined).is_like(expected.tree)
    assert fault(tmp_path, f"{printed}AggregatedBlock=b[0-2] Nodes=n1 BlockSize=12") == (
        "line 5: BlockSizes is 4,12, must rise, each size a power of two times the first"
    )


def test_an_included_file_stands_where_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "leaves.conf").write_text("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n", encoding="utf-8")
    cluster = read(tmp_path, "INCLUDE leaves.conf  # both\nSwitchName=top Switches=a,b\n")
    assert cluster.nodes == ("n1", "n2", "n3", "n4")
    assert fault(tmp_path, "\ninclude others.conf") == "line 2: includes 'others.conf', which is not there"
    (tmp_path / "round.conf").write_text("Include round.conf\n", encoding="utf-8")
    with pytest.raises(BadFileError, match=r"round\.conf: line 1: more than 10 files include each other"):
        read_topology(tmp_path / "round.conf")


def test_files_that_include_many_others_are_limited_together(tmp_path: Path) -> None:
    for number in range(9):
        text = f"Include {number + 1}.conf\n" * 12
        (tmp_path / f"{number}.conf").write_text(text, encoding="utf-8")
    (tmp_path / "9.conf").write_text("SwitchName=s Nodes=n1\n", encoding="utf-8")
    with pytest.raises(BadFileError, match=r"/0\.conf: what is included has more than 1000 files"):
        read_topology(tmp_path / "0.conf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no line with SwitchName= or BlockName="),
        ("# nothing\n", "holds no line with SwitchName= or BlockName="),
        ("BlockSizes=4", "holds no line with SwitchName= or BlockName="),
        (
            "SwitchName=s Nodes=n1,\n  n2\n",
            "line 2: 'n2' is not Key=value; a list goes on over lines with a backslash at the end",
        ),
        ("\nSwitchName=s Nodes=n1, n2\n", "line 2: 'n2' is not Key=value"),
        ("SwitchName=s Nodes=n[1-2", "line 1: Nodes: 'n[1-2' has a bracket that is not closed"),
        ("SwitchName=t Switches=s[2-1]", "line 1: Switches: 's[2-1]' has the range 2-1, which falls"),
        (
            "SwitchName=s Node=n1",
            "line 1: key 'node' is unknown beside SwitchName; keys are SwitchName, Nodes, Switches",
        ),
        ("SwitchName=s Nodes=a nodes=b", "line 1: key nodes is given twice"),
        ("SwitchName= Nodes=a", "line 1: SwitchName is empty"),
        ("NodeName=a", "line 1: begins with 'nodename', must be one of SwitchName, BlockName, BlockSizes"),
        ("SwitchName=s Nodes=n\x1b[0m", "line 1: Nodes: 'n\\x1b[0m' has a bracket"),
        ("SwitchName=s Nodes=n\x1b", "topology nodes: node 'n\\x1b' has a control character in its name"),
        (f"include a{' ' * 1_000_000}b", "line 1: includes 'a     "),
        (f"SwitchName=s Nodes=n1 {'k' * 5000}=1", "line 1: key 'kkk"),
        ("Include=x.conf", "line 1: begins with 'include', must be one of SwitchName, BlockName, BlockSizes"),
        ("SwitchName=s Nodes=a\n\nSwitchName=s Nodes=b", "line 3: switch 's' is given twice, before at line 1"),
        ("SwitchName=t Switches=s,u\nSwitchName=s Nodes=a", "line 1: switch 't' has 'u' below it, which is not given"),
        ("SwitchName=t Switches=s Nodes=b\nSwitchName=s Nodes=a", "line 1: switch 't' has both nodes and switches"),
        ("SwitchName=s Nodes=a\nSwitchName=t Switches=t", "line 2: switches run in a circle: t under t"),
        ("SwitchName=s", "no switch connects any node"),
        ("BlockName=b Nodes=a\nSwitchName=s Nodes=b", "line 1: stands in a file with SwitchName lines"),
        (
            "BlockName=b Nodes=a Switches=s",
            "line 1: key 'switches' is unknown beside BlockName; keys are BlockName, Nodes",
        ),
        ("BlockName=b Nodes=a\nBlockSizes=2,6", "line 2: BlockSizes is 2,6, must rise, each size a power of two times"),
        ("BlockName=b Nodes=a\nBlockSizes=4,2", "line 2: BlockSizes is 4,2, must rise"),
        ("BlockName=b Nodes=a\nBlockSizes=0", "line 2: BlockSizes is 0, must rise"),
        ("BlockName=b Nodes=a\nBlockSizes=4-8", "line 2: BlockSizes is '4-8', must be numbers of nodes such as 4,16"),
        ("BlockName=b Nodes=a\nBlockSizes=1\nBlockSizes=2", "line 3: BlockSizes is given twice, before at line 2"),
    ],
)
def test_an_odd_file_gets_a_line_that_names_the_fault(tmp_path: Path, text: str, message: str) -> None:
    found = fault(tmp_path, text)
    assert found.startswith(message)
    assert found.isprintable()


def test_more_nodes_than_a_cluster_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.cluster.hostlist.LARGEST_CLUSTER", 100)
    found = fault(tmp_path, "SwitchName=a Nodes=n[0-98]\nSwitchName=b Nodes=m[0-9]")
    assert found.startswith("line 2: Nodes: 'm[0-9]' stands for more than 100 names")


@st.composite
def written_trees(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """Draw a file of two levels of switches in odd spelling, and the nodes of each leaf."""
    count = iter(range(1000))
    leaves = [[f"n{next(count):03d}" for _ in range(draw(st.integers(1, 4)))] for _ in range(draw(st.integers(1, 6)))]
    spell = st.sampled_from([str, str.lower, str.upper])
    joints = st.sampled_from([",", ",\\\n", ",\\ \n  "])
    lines = [
        f"{draw(spell)('SwitchName')}=leaf{number} {draw(spell)('Nodes')}="
        f"{fold_hostlist(nodes) if draw(st.booleans()) else draw(joints).join(nodes)}"
        f"{draw(st.sampled_from(['', ' # end', ' LinkSpeed=1', '  ']))}"
        for number, nodes in enumerate(leaves)
    ]
    lines.append(f"SwitchName=root Switches={fold_hostlist(f'leaf{number}' for number in range(len(leaves)))}")
    return "\n".join(lines), leaves


@given(written_trees())
def test_any_spelling_gives_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory, written: tuple[str, list[list[str]]]
) -> None:
    text, leaves = written
    cluster = read(tmp_path_factory.mktemp("slurm"), text)
    assert cluster.nodes == tuple(node for leaf in leaves for node in leaf)
    expected = np.repeat(np.arange(len(leaves)), [len(leaf) for leaf in leaves])
    assert cluster.tree.groups[0].tolist() == expected.tolist()


def test_names_that_slurm_cannot_read_are_written_plain_and_differ(tmp_path: Path) -> None:
    blocks = "".join(f"BlockName=b{number} Nodes=n{number}\n" for number in range(4))
    cluster = read(tmp_path, f"{blocks}BlockName=top Nodes=m\nBlockSizes=1,2\n")
    write_slurm_topology(tmp_path / "out.conf", cluster)
    lines = (tmp_path / "out.conf").read_text(encoding="utf-8").splitlines()
    assert "SwitchName=2-node-block-1 Switches=b[0-1]" in lines
    assert lines[-1] == "SwitchName=top-2 Switches=2-node-block-[1-3]"
    assert read_topology(tmp_path / "out.conf").is_like(cluster.tree)


def test_a_switch_that_stands_for_two_levels_is_written_once(tmp_path: Path) -> None:
    text = "SwitchName=r Switches=a,m\nSwitchName=m Switches=b,c\nSwitchName=a Nodes=a1\nSwitchName=b Nodes=b1\n"
    cluster = read(tmp_path, f"{text}SwitchName=c Nodes=c1\n")
    write_slurm_topology(tmp_path / "out.conf", cluster)
    assert (tmp_path / "out.conf").read_text(encoding="utf-8").splitlines() == [
        "SwitchName=a Nodes=a1",
        "SwitchName=b Nodes=b1",
        "SwitchName=c Nodes=c1",
        "SwitchName=m Switches=b,c",
        "SwitchName=top Switches=a,m",
    ]
    assert read_topology(tmp_path / "out.conf").is_like(cluster.tree)
