"""Options of commands that describe a fat tree; asking for help loads no array."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allocopt.errors import InvalidProblemError, UsageError

if TYPE_CHECKING:
    from allocopt.cluster.topology import FatTree

HopCost = Annotated[float, typer.Option(metavar="X", help="Cost of one hop, positive.")]


@dataclass(frozen=True, slots=True)
class FatTreeOptions:
    """A fat tree as a command line describes it."""

    pods: Annotated[int, typer.Option(min=1, metavar="N", help="Pods of the fat tree.")] = 10
    leaves_per_pod: Annotated[int, typer.Option(min=1, metavar="N", help="Leaf switches per pod.")] = 10
    nodes_per_leaf: Annotated[int, typer.Option(min=1, metavar="N", help="Nodes per leaf switch.")] = 10
    hops: Annotated[str, typer.Option(metavar="N,N,N", help="Within a leaf, a pod, across.")] = "2,4,6"
    pairs: Annotated[
        Literal["ordered", "unordered"], typer.Option(metavar="KIND", help="Pairs count twice, or once: unordered.")
    ] = "ordered"

    def tree(self) -> "FatTree":
        """Make the cluster; raise `UsageError` if the options describe none."""
        from allocopt.cluster.topology import FatTree

        try:
            numbers = tuple(int(hop) for hop in self.hops.split(","))
        except ValueError:
            raise UsageError(f"--hops is {self.hops!r}, must be three integers such as 2,4,6") from None
        try:
            return FatTree(self.pods, self.leaves_per_pod, self.nodes_per_leaf, numbers, self.pairs)
        except InvalidProblemError as error:
            raise UsageError(str(error)) from None
