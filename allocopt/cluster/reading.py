"""Topologies of clusters in any format, told apart by the ending of the file."""

import os
from collections.abc import Sequence
from pathlib import Path

from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.faults import memory_faults_named


@memory_faults_named
def read_topology(path: Path | str, labels: Sequence[str] = ()) -> NamedTree:
    """Read how the nodes of a cluster are connected.

    Parameters
    ----------
    path
        ``.yaml`` or ``.yml`` as Slurm's ``topology.yaml``, of which ``FILE#NAME`` chooses a topology; ``.json`` as
        ``kubectl get nodes -o json`` prints it; ``.graphml``; anything else as Slurm's ``topology.conf``.
        ``.gz`` is decompressed.
    labels
        For Kubernetes the keys of labels, from the top downwards; none for those that are known and there.

    Raises
    ------
    BadFileError
        If the file cannot be read or makes no tree; it names the place.
    UsageError
        If labels are given for another format, or one twice.
    """
    source, name = topology_file(path)
    suffix = Path(source.name.removesuffix(".gz")).suffix.lower()
    if labels and suffix != ".json":
        raise UsageError(f"labels are those of Kubernetes nodes in a .json file, {source.name} is none")
    # What a format needs is loaded for that format.
    if suffix in (".yaml", ".yml"):
        from allocopt.cluster.slurm_yaml import read_slurm_topology_yaml

        return read_slurm_topology_yaml(source, name)
    if suffix == ".json":
        from allocopt.cluster.kubernetes import read_kubernetes_nodes

        return read_kubernetes_nodes(source, labels)
    if suffix == ".graphml":
        from allocopt.cluster.graphml import read_graphml

        return read_graphml(source)
    from allocopt.cluster.slurm import read_slurm_topology

    return read_slurm_topology(source)


def topology_file(path: Path | str) -> tuple[Path, str | None]:
    """Return the file, and the name of the topology that ``FILE#NAME`` chooses; None if none is.

    Only YAML files hold several; in any other name, and in that of a file that is there, ``#`` is a letter.
    """
    file, hash_sign, name = str(path).rpartition("#")
    is_chosen = hash_sign and file.lower().removesuffix(".gz").endswith((".yaml", ".yml")) and not os.path.exists(path)
    return (Path(file), name or None) if is_chosen else (Path(path), None)


def write_topology(path: Path, cluster: NamedTree) -> None:
    """Write a cluster: ``.graphml``, or ``.conf`` as Slurm's ``topology.conf``.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    UsageError
        If its ending is another one.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".graphml":
        from allocopt.cluster.graphml import write_graphml

        return write_graphml(path, cluster)
    if suffix == ".conf":
        from allocopt.cluster.slurm import write_slurm_topology

        return write_slurm_topology(path, cluster)
    raise UsageError(f"{path} must end in .conf or .graphml")
