"""Options of commands that describe a fat tree; asking for help loads no array."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allocopt.errors import InvalidProblemError, UsageError

if TYPE_CHECKING:
    from allocopt.cluster.topology import FatTree

Pods = Annotated[int, typer.Option(min=1, rich_help_panel="Cluster", help="Pods of the fat tree.")]
LeavesPerPod = Annotated[int, typer.Option(min=1, rich_help_panel="Cluster", help="Leaf switches per pod.")]
NodesPerLeaf = Annotated[int, typer.Option(min=1, rich_help_panel="Cluster", help="Nodes per leaf switch.")]
Hops = Annotated[
    str,
    typer.Option(rich_help_panel="Cluster", help="Hops within a leaf, within a pod and across pods: three numbers."),
]
PairsCounted = Annotated[
    Literal["ordered", "unordered"],
    typer.Option(rich_help_panel="Cluster", help="Whether a pair of nodes counts twice or once."),
]
HopCost = Annotated[float, typer.Option(rich_help_panel="Cluster", help="Cost of one hop, positive.")]


def fat_tree(
    pods: int, leaves_per_pod: int, nodes_per_leaf: int, hops: str, pairs: Literal["ordered", "unordered"]
) -> "FatTree":
    """Make the cluster that these options describe; raises `UsageError`."""
    from allocopt.cluster.topology import FatTree

    try:
        numbers = tuple(int(hop) for hop in hops.split(","))
    except ValueError:
        raise UsageError(f"--hops is {hops!r}, must be three integers such as 2,4,6") from None
    try:
        return FatTree(pods, leaves_per_pod, nodes_per_leaf, numbers, pairs)
    except InvalidProblemError as error:
        raise UsageError(str(error)) from None
