"""Files of real sites, as they are and damaged."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.reading import read_cluster, read_topology, write_topology
from allocopt.errors import BadFileError
from allocopt.report.html.figures.tree import TreePicture

T, S, U, M = "sites/topologies/", "slurm_topology/", "sites/ubhpc/", "sites/micro/"
FORM = r"(?i)nodes\s*[=:]\s*(\S+)"
# File, nodes, groups by level from the leaves on, trees, cores and GPUs, partitions, words of the remarks.
READ = [
    (T + "flux_4node_jgf.json", 4, [1], 1, (144, 8), 0, ""),
    (T + "flux_medium.graphml", 72, [4], 1, (2592, 144), 0, ""),
    (T + "flux_tiny.graphml", 2, [1], 1, (72, 4), 0, ""),
    (T + "kueue_tas_nodes.json", 8, [4, 2], 1, None, 0, "control plane left out: 1"),
    (T + "slurm133_1.conf", 10_000, [500, 26, 2], 1, None, 0, ""),
    (T + "slurm133_6.conf", 40, [5, 3], 3, None, 0, "3 switches have no switch above them"),
    (T + "slurm_man.yaml", 4, [2], 1, None, 0, ""),
    (T + "slurm_man.yaml#topo2", 16, [4], 1, None, 0, ""),
    (T + "slurm_man.yaml#topo4", 16, [2], 2, None, 0, "side by side in a ring"),
    (T + "slurm_man.yaml#topo5", 32, [], 1, None, 0, "side by side in a torus3d"),
    (T + "slurm_test161.yaml", 32, [], 1, None, 0, "side by side in a torus3d"),
    (T + "slurmman_block.conf", 128, [4], 1, None, 0, ""),
    (T + "soperator_scontrol.txt", 4, [3, 3], 1, None, 0, ""),
    (T + "topograph_ibnetdiscover.out", 122, [8], 1, None, 0, "belong to no host, left out: 109"),
    (S + "azure-cyclecloud_block_topology.txt", 72, [4], 1, None, 0, ""),
    (S + "azure-cyclecloud_slurm_topology.txt", 16, [5], 1, None, 0, ""),
    (S + "nsls2-flat.topology.conf", 39, [4], 4, None, 0, "4 switches have no switch above them"),
    (S + "nstda-tara.topology.conf", 10, [4], 1, None, 0, ""),
    (S + "slurm-test-docker-3level.topology.conf", 8, [4, 2], 1, None, 0, ""),
    (S + "ubhpc-medium.topology.conf", 234, [3], 1, None, 0, ""),
    (U + "topology.conf", 234, [3], 1, None, 0, ""),
    (U + "slurm.conf", 217, [], 1, (7968, 20), 2, ""),
    (M + "topology.conf", 10, [3], 1, None, 0, ""),
    (M + "slurm.conf", 10, [], 1, (120, 2), 2, ""),
    ("sites/jobs/openb_nodes.csv", 1213, [], 1, (107_018, 6212), 0, ""),
]
JOBS = "has no SwitchName=, BlockName= or NodeName=, must be Slurm's configuration"
REFUSED = {
    T + "azure_sharp.txt": "line 47: switches form a cycle: ibsw47 under ibsw14 under ibsw47; a switch must list",
    T + "kai_kind.yaml": "configures the tool kind; give what `kubectl get nodes -o yaml` prints of that cluster",
    T + "kai_nodes.json": "items: no known label of a network topology is on all nodes; the nodes have "
    "nvidia.com/gpu.deploy.device-plugin, nvidia.com/gpu.memory, run.ai/simulated-gpu-node-pool, "
    "topology.test/rack-domain, topology.test/zone-domain: name the labels of the levels with --labels, from the top",
    T + "toposim_nvl72.yaml": "is a model of topograph's simulator; give the topology.conf that topograph makes",
    T + "slurm_man.yaml#topo3": "[2]: topology 'topo3' is flat and names no nodes",
    U + "gres.conf": "names no node; give a slurm.conf with lines NodeName=",
    U + "sacct_dump.txt": JOBS,
    U + "workload_week.events.gz": JOBS,
    M + "gres.conf": "names no node; give a slurm.conf with lines NodeName=",
    M + "jobs500.csv": "line 1: has no column sn, cpu_milli, memory_mib, gpu; the columns of nodes are sn",
    M + "jobs500.events": JOBS,
    "sites/jobs/philly_fmt.json": "top level: is a list, must be what `kubectl get nodes -o json` or `scontrol",
}


def test_every_file_of_the_sites_has_a_row(shared_data: Path) -> None:
    there = {f"{folder}{path.name}" for folder in (T, S, U, M) for path in (shared_data / folder).iterdir()}
    assert there <= {row[0] for row in READ} | REFUSED.keys()


@pytest.mark.parametrize(("name", "nodes", "groups", "trees", "has", "partitions", "remark"), READ)
def test_a_file_of_a_site_is_read_counted_and_drawn(
    shared_data: Path, tmp_path: Path, name: str, nodes: int, groups: list[int], trees: int, has: Any, partitions: int,
    remark: str,
) -> None:  # fmt: skip
    path = f"{shared_data}/{name}"
    cluster = read_cluster([path])
    topology = cluster.topology
    assert (cluster.size, [len(level) for level in topology.tree.names]) == (nodes, groups)
    assert trees == (1 if topology.is_joined else groups[-1])
    assert (len(cluster.partitions), cluster.is_exclusive) == (partitions, has is None)
    assert has is None or tuple(cluster.capacity[:, [0, 2]].sum(axis=0) / 1000) == has
    assert remark in " ".join(cluster.remarks)
    text = Path(path.partition("#")[0]).read_text(encoding="utf-8")
    if re.search(FORM, text) and "#" not in name and not partitions and name.endswith(("conf", "txt")):
        # Another program's expansion of the same hostlists.
        node_set = pytest.importorskip("ClusterShell.NodeSet").NodeSet
        leaves = [
            line for line in text.splitlines() if re.search(FORM, line) and not re.search(r"(?i)\bswitches=", line)
        ]
        assert set(topology.nodes) == set(node_set(",".join(re.findall(FORM, "\n".join(leaves)))))
        assert len(topology.tree.names[0]) == sum(not line.startswith("#") for line in leaves)
    figure = TreePicture(topology.tree, np.zeros(nodes, dtype=np.int64), ["1"], node_names=topology.nodes).figure()
    assert f"{nodes:,}" in repr(figure)
    for ending in ("conf", "graphml"):
        write_topology(tmp_path / f"again.{ending}", topology)
        again = read_topology(tmp_path / f"again.{ending}")
        assert (again.is_like(topology.tree), again.is_joined) == (True, topology.is_joined)
        assert ending == "graphml" or again.block_sizes == topology.block_sizes


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_cluster_is_refused_with_what_would_be_right(shared_data: Path, name: str) -> None:
    with pytest.raises(BadFileError) as raised:
        read_cluster([shared_data / name])
    message = str(raised.value)
    assert message.startswith(f"{shared_data / name.partition('#')[0]}: {REFUSED[name]}")
    assert message.isprintable()


def test_two_files_of_a_site_that_disagree_are_their_intersection(shared_data: Path) -> None:
    def read(site: str, *names: str) -> Cluster:
        return read_cluster([shared_data / site / name for name in names])

    university = read(U, "slurm.conf", "gres.conf", "topology.conf")
    assert (university.size, len(university.topology.tree.names[0])) == (217, 3)
    assert university.remarks == (
        "not modelled, PreemptType=preempt/partition_prio: no job is preempted",
        "not modelled, QOS=general-compute of partition general-compute and 1 more: limits of the partition's QOS are "
        "not applied",
        "nodes of the topology that no file describes, left out: 17",
    )
    assert [len(partition.nodes) for partition in university.partitions] == [215, 2]
    with pytest.raises(BadFileError, match="has no node in common with its topology"):
        read("", U + "slurm.conf", M + "topology.conf")
