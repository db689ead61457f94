"""Options of commands that describe a fat tree. The module does not import NumPy, so that help appears quickly."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from allocopt.errors import InvalidProblemError, UsageError

if TYPE_CHECKING:
    from allocopt.cluster.topology import FatTree

HopCost = Annotated[float, typer.Option(metavar="X", help="Set the cost of one hop (> 0).")]


@dataclass(frozen=True, slots=True)
class FatTreeOptions:
    """A fat tree as a command line describes it."""

    pods: Annotated[int, typer.Option(min=1, metavar="N", help="Set the number of pods.")] = 10
    leaves_per_pod: Annotated[int, typer.Option(min=1, metavar="N", help="Set the leaf switches per pod.")] = 10
    nodes_per_leaf: Annotated[int, typer.Option(min=1, metavar="N", help="Set the nodes per leaf switch.")] = 10
    hops: Annotated[str, typer.Option(metavar="N,N,N", help="Set the hops in a leaf, in a pod, between pods.")] = (
        "2,4,6"
    )
    pairs: Annotated[
        Literal["ordered", "unordered"],
        typer.Option(metavar="KIND", help="Count each pair of nodes twice (ordered) or once."),
    ] = "ordered"

    def tree(self) -> "FatTree":
        """Return the fat tree. Raises `UsageError` if the options are invalid."""
        from allocopt.cluster.topology import FatTree

        try:
            numbers = tuple(int(hop) for hop in self.hops.split(","))
        except ValueError:
            raise UsageError(f"--hops is {self.hops!r}, must be three integers such as 2,4,6") from None
        try:
            return FatTree(self.pods, self.leaves_per_pod, self.nodes_per_leaf, numbers, self.pairs)
        except InvalidProblemError as error:
            raise UsageError(str(error)) from None
