"""Malformed descriptions of clusters: each is refused in one line with exit code 3, and nothing is written."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import check_read_or_refused, damaged
from support.program import Run

from allocopt.cluster.reading import read_cluster

WHOLE = {
    "slurm.conf": "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=7\n"
    "NodeName=DEFAULT RealMemory=100 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 Weight=5\nNodeName=a[1-2] Feature=ib\n"
    "NodeName=b1 CPUs=8 Gres=gpu:v100:2\nNodeSet=fast Feature=ib\nPartitionName=DEFAULT MaxTime=60\n"
    "PartitionName=p Nodes=a[1-2],b1 MaxNodes=2 PriorityTier=3\nPartitionName=q Nodes=fast\n",
    "gres.conf": "NodeName=a1 CPUs=4 Gres=gpu:2\nNodeName=a1 Name=gpu Type=t4 Count=2 File=/dev/nvidia[0-1]\n",
    "topology.conf": "SwitchName=s1 Nodes=a[1-2]\nSwitchName=s2 Nodes=b[1-2]\nSwitchName=t Switches=s[1-2]\n",
    "blocks.conf": "BlockName=b1 Nodes=a[1-4]\nBlockName=b2 Nodes=a[5-8]\nBlockSizes=4,8\n",
    "topology.yaml": "- topology: t\n  tree:\n    switches:\n    - {switch: r, children: 's[1-2]'}\n"
    "    - {switch: s1, nodes: 'a[1-2]'}\n    - {switch: s2, nodes: b1}\n- topology: u\n  block:\n"
    "    block_sizes: [2]\n    blocks: [{block: b, nodes: c}]\n",
    "scontrol.txt": "NodeName=a1 Arch=x86_64 CoresPerSocket=4\n   CPUAlloc=0 CPUTot=8 RealMemory=100 Sockets=2\n"
    "   Gres=gpu:v100:2(S:0) State=IDLE ThreadsPerCore=1 Weight=5\n\nPartitionName=p\n   AllowGroups=ALL Default=YES\n"
    "   MaxNodes=2 MaxTime=1:00:00 Nodes=a1 State=UP PriorityTier=1\n",
    "nodes.json": '{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "w1", "labels": '
    '{"topology.kubernetes.io/zone": "z"}}, "status": {"allocatable": {"cpu": "64", "memory": "2Gi"}}}]}',
    "nodes.yaml": "kind: List\nitems:\n- kind: Node\n"
    "  metadata: {name: w1, labels: {topology.kubernetes.io/zone: z}}\n",
    "flux.json": '{"graph": {"nodes": [{"metadata": {"type": "node", "paths": {"containment": "/c/r/n0"}}}, '
    '{"metadata": {"type": "core", "size": 4, "unit": "", "paths": {"containment": "/c/r/n0/core"}}}]}}',
    "grug.graphml": '<graphml><key id="m" for="edge" attr.name="multi_scale" attr.type="string"><default>1</default>'
    '</key><key id="g" for="edge" attr.name="gen_method" attr.type="string"><default>MULTIPLY</default></key>'
    '<key id="s" for="node" attr.name="size" attr.type="string"/><graph edgedefault="directed"><node id="cluster"/>'
    '<node id="node"><data key="s">1</data></node><edge source="cluster" target="node"><data key="m">16</data></edge>'
    "</graph></graphml>",
    "net.graphml": '<graphml><graph edgedefault="undirected"><node id="s"/><node id="a"/><node id="b"/>'
    '<edge source="s" target="a"/><edge source="s" target="b"/></graph></graphml>',
    "fabric.out": 'Switch 2 "S-1" # "leaf"\n[1] "H-1"[1] # "n1 mlx5_0"\nCa 1 "H-1" # "n1 mlx5_0"\n[1] "S-1"[1]\n',
    "openb.csv": "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,2048,2,T4\n",
}
NUMBERS = ("-8", "8.5", "eight", "9" * 20)
HOSTLISTS = (
    "a[1-2",
    "a1-2]",
    "a[2-1]",
    "a[1-]",
    "a[]",
    "a[x]",
    "a[1-99999999]",
    "a[1-9999][1-9999]",
    "a\0",
    "a\x1b[0m",
)
COUNTED = "CPUs=8 RealMemory=100 Sockets=2 Weight=5 MaxNodes=2 PriorityTier=3 DefMemPerCPU=7 CoresPerSocket=4 CPUTot=8"
# What is replaced, and what it is replaced by.
FAULTS = {
    "slurm.conf": (
        "CPUs=8|CPUs|CPUs=8 =|CPUs=8 cpus=9|Sockets=999999999999",
        'gpu:v100:2|gpu:v100:two:2|gpu:-2|gpu:99999999999|"gpu',
        "NodeName=b1|NodeName=a2|NodeName=b1,b1|NodeName b1|NodeName=",
        "a[1-2],b1|a[1-3]|c9",
        "Nodes=fast|Nodes=slow",
        "PartitionName=q|PartitionName=p",
        "MaxTime=60|MaxTime=soon|MaxTime=-60|MaxTime=1-2-3|MaxTime=99999999999999999999",
        "SelectType=|Include none.conf\nSelectType=|Include slurm.conf\nSelectType=",
    ),
    "gres.conf": ("Count=2|Count=two|Count=-2", "NodeName=a1 CPUs=4 Gres=gpu:2\n|", "a1 Name|a[1 Name"),
    "topology.conf": (
        "s[1-2]|s[1-3]|s[1-|t|s[2-1]",
        "SwitchName=s2|SwitchName=s1|SwitchName=|BlockName=s2|SwitchName=s2 Switches=t",
        "Nodes=a|Node=a|a",
    ),
    "blocks.conf": ("4,8|4,12|8,4|0,4|-4|4;8||4,4|1,65536|4,8\nBlockSizes=4", "b2|b1", "b2 Nodes=|b2 Switches="),
    "topology.yaml": (
        "'a[1-2]'|[a1, a2]|7|&a [*a]|!!python/name:os.system",
        "'s[1-2]'|'s[1-3]'|r",
        "switch: s2|switch: s1|switch: s2, nodes2: x|switch: 2026-01-01",
        "tree:|star:|flat: true\n  tree:|cluster_default: 3\n  tree:|\ttree:",
        "switches:|switch:",
        "- topology: t|- name: t|topology: t",
    ),
    "scontrol.txt": (
        "State=IDLE|State=DOWN|State=IDLE\nNodeName=a1 CPUTot=1",
        "Nodes=a1|Nodes=a[1-2]|Nodes=a[1",
        "MaxTime=1:00:00|MaxTime=never",
        "gpu:v100:2(S:0)|gpu:v100:x:2",
        "NodeName=a1|NodeName=",
    ),
    "nodes.json": (
        '"w1"|7|""|"a\\nb"|"a", "name": "b"',
        '"64"|"-64"|"64 cores"|[64]|"999999999999999999E"|NaN',
        '"z"|5',
        '"Node"|"Pod"',
        '"items": [|"items": 5, "x": [',
        "topology.kubernetes.io/zone|my/zone",
        '"metadata"|"meta"',
        '{"kind": "List", |[',
    ),
    "nodes.yaml": (
        "w1|[w1]",
        "Node\n|Pod\n",
        "zone: z|zone: 1|rack: z",
        "items:|things:",
        "{name|{{name",
        "- kind|- *x\n- kind",
    ),
    "flux.json": (
        '"/c/r/n0"|"c"',
        '"node"|"rack"',
        '"size": 4|"size": -4|"size": 1e300|"size": "4"|"unit": "furlong", "x": ""',
        '"unit": ""|"unit": "furlong"',
        '"nodes": [|"nodes": [], "x": [',
        "containment|physical",
    ),
    "grug.graphml": (">16<|>-16<|>many<|>99999999999<", ">1</data></node>|>x</data></node>", "</graph>|"),
    "net.graphml": ('id="s"|id="', "<edge|<edg", '"b"/></graph>|"b"/></graph', "<graphml>|<html>"),
    "fabric.out": ("[1]|[one]", 'Ca 1 "H-1" # "n1 mlx5_0"|Ca 1 "H-1" # "MT4123"', "Switch|Router", '"S-1" #|S-1 #'),
    "openb.csv": ("64000|-1|nan|many", "sn,|name,|sn,sn,", "n1|n1\0", "\nn1|\n", "T4|T4,x", "n1,64000,2048,2,T4\n|"),
}
REPLACED = [
    *(
        (name, old, new)
        for name, faults in FAULTS.items()
        for old, *news in (one.split("|") for one in faults)
        for new in news
    ),
    *(
        (name, old, f"{old.partition('=')[0]}={new}")
        for name in ("slurm.conf", "scontrol.txt")
        for old in COUNTED.split()
        for new in NUMBERS
        if old in WHOLE[name]
    ),
    *((name, "a[1-2]", new) for name in ("slurm.conf", "topology.conf") for new in HOSTLISTS),
]
BROKEN = (b"", b"\n \n", b"\0" * 99, "NodeName=é\n".encode("latin-1"), bytes(range(128, 256)), b"[" * 20_000)


def refused(run: Run, path: Path) -> None:
    out = path.with_name("made.json")
    line = run("generate", "window", "--cluster", path, "--job", "a=1", "--out", out).refusal(3)
    assert line.startswith(f"{path}: ")
    assert line.isprintable()
    assert not out.exists()


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_read_and_a_broken_one_refused(run: Run, tmp_path: Path, name: str) -> None:
    path, out = tmp_path / name, tmp_path / "whole.json"
    path.write_text(WHOLE[name], encoding="utf-8")
    assert run("generate", "window", "--cluster", path, "--job", "a=1", "--out", out).code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["jobs"]
    for broken in BROKEN:
        path.write_bytes(broken)
        refused(run, path)
        path.with_name(f"{name}.gz").write_bytes(broken)
        refused(run, path.with_name(f"{name}.gz"))
    path.unlink()
    refused(run, path)
    path.mkdir()
    refused(run, path)


@pytest.mark.parametrize(("name", "old", "new"), REPLACED)
def test_a_fault_in_a_file_is_refused_in_one_line(run: Run, tmp_path: Path, name: str, old: str, new: str) -> None:
    assert old in WHOLE[name]
    (tmp_path / name).write_text(WHOLE[name].replace(old, new, 1), encoding="utf-8")
    refused(run, tmp_path / name)


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, name: str, data: st.DataObject) -> None:
    (tmp_path / name).write_text(data.draw(damaged(WHOLE[name])), encoding="utf-8")
    check_read_or_refused(tmp_path / name, lambda path: read_cluster([path]).size)
