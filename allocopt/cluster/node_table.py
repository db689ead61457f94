"""Tables of nodes without a network, such as Alibaba's openb.

https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023
"""

from collections.abc import Mapping
from pathlib import Path

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.slurm_nodes import why_away
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import printable, problem_faults_named, shown

_NEEDED = ("cpu_milli", "memory_mib", "gpu")
_STATES = ("state", "status", "node_state", "health")
_READY = ("ready", "schedulable", "available", "is_available", "online")
_UP = frozenset(
    "idle up ready running true 1 yes ok healthy normal online available mixed mix allocated alloc busy schedulable"
    " active alive free planned".split()
) | {""}
"""Words, in lower case, for a node that takes jobs."""


def node_table(source: Path) -> Cluster:
    """Return the cluster of a table of nodes. State columns say which nodes take jobs; remarks name unknown columns."""
    nodes = []
    unknown: dict[str, None] = {}
    for place, row in csv_rows(source, ("sn", *_NEEDED), "nodes"):
        with problem_faults_named(source, place):
            cores, memory, gpus = (number_at_least_0(source, place, row, key, "a number") for key in _NEEDED)
            kinds = {row.get("model", ""): int(gpus)} if gpus else {}
            nodes.append(ClusterNode(row["sn"], cores / 1000, int(memory), kinds, away=_away(row)))
        unknown |= dict.fromkeys(key for key in row if key.lower() not in _KNOWN)
    remarks = [f"unknown columns of nodes, ignored: {', '.join(map(shown, unknown))}"] if unknown else []
    return Cluster.of(nodes, None, remarks=remarks)


_KNOWN = frozenset(("sn", "model", *_NEEDED, *_STATES, *_READY))


def _away(row: Mapping[str, str]) -> tuple[str, ...]:
    for key, text in row.items():
        word = text.strip()
        if key.lower() in _STATES and word.lower() not in _UP:
            return why_away(word.upper()) or (f"in state {printable(word)}",)
        if key.lower() in _READY and word.lower() not in _UP:
            return ("not ready",)
    return ()
