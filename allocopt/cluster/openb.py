"""Lists of nodes of Alibaba's openb traces: ``sn,cpu_milli,memory_mib,gpu,model``.

https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

from pathlib import Path

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.errors import InvalidProblemError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file


def read_openb_nodes(path: Path) -> Cluster:
    """Read a list of nodes, of whose network nothing is known; raise `BadFileError` that names line and column."""
    nodes = []
    for place, row in csv_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu"), "nodes"):
        cores, memory, gpus = (
            number_at_least_0(path, place, row, name, "a number") for name in ("cpu_milli", "memory_mib", "gpu")
        )
        try:
            model = row.get("model", "")
            held = {model: int(gpus)} if gpus else {}
            # Pods name the models that they take, as a constraint names features.
            nodes.append(ClusterNode(row["sn"], cores / 1000, int(memory), held, frozenset({model} - {""})))
        except InvalidProblemError as error:
            raise bad_file(path, place, error.fault) from None
    try:
        return Cluster.of(nodes, None)
    except InvalidProblemError as error:
        raise bad_file(path, error.place, error.fault) from None
