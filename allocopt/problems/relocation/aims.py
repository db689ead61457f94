"""Aims of a relocation: waiting jobs that start, nodes that are emptied, racks with free nodes."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.cluster.hostlist import HostlistError, expand_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.relocation.problem import WaitingGang
from allocopt.problems.topology.side_constraints import level_index

MOVE_SHARE = 0.5  # cost of a move, as a share of the cost of a stop
FREE_RACKS = "free-racks"  # id of the fictitious job that keeps nodes of racks free


@dataclass(frozen=True, slots=True)
class Aims:
    """Aims of a relocation.

    Parameters
    ----------
    start
        Ids of waiting jobs that must start.
    within
        Level, such as ``leaf``, at which each of these jobs has to stay within one group; None for no such rule.
    drained
        Hostlist of the nodes that have to be emptied.
    racks, size
        Number of leaf groups in each of which ``size`` whole nodes have to become free.
    """

    start: tuple[str, ...] = ()
    within: str | None = None
    drained: str = ""
    racks: int = 0
    size: int = 0

    def check(self) -> None:
        """Raise `UsageError` if there is no aim, or an option lacks another one that it needs."""
        if not (self.start or self.drained or self.racks):
            raise UsageError("nothing is asked for: give --start, --drain or --free-racks")
        if self.within is not None and not self.start:
            raise UsageError("--within needs --start")
        if self.size and not self.racks:
            raise UsageError("--size needs --free-racks")

    def kept_within(self, topology: NamedTree, request: ClusterRequest) -> ClusterRequest:
        """Return a request that stays within one group of the level; raise `UsageError` if there is no such level."""
        if self.within is None:
            return request
        is_number = self.within.isascii() and self.within.isdigit() and len(self.within) < 4
        try:
            level = level_index(topology.tree, int(self.within) if is_number else self.within, "--within")
        except InvalidProblemError as error:
            raise UsageError(f"--within {error.fault}") from None
        most = list(request.most_groups)
        most[level] = 1
        return request._replace(most_groups=tuple(most))

    def free_racks(self, topology: NamedTree, resources: int) -> list[WaitingGang]:
        """Return the job that keeps whole nodes of racks free, with a segment in each rack; empty for no such aim."""
        if not self.racks:
            return []
        if self.size < 1:
            raise UsageError("--free-racks needs --size, the number of nodes of each rack that have to be free")
        tree = topology.tree
        levels, size = len(tree.hops) - 1, tree.size
        if not levels:
            raise UsageError(
                "--free-racks: the cluster's files name no racks; give a topology.conf, or --labels of Kubernetes nodes"
            )
        largest = int(np.bincount(tree.groups_of(np.arange(size))[0]).max())
        if largest >= 2 * self.size:
            fault = f"a rack has {largest} nodes, so that two parts of {self.size} could lie in one rack"
            raise UsageError(f"--size {self.size}: {fault}; ask for more than half of the largest rack")
        nodes, nothing = self.racks * self.size, np.zeros(resources, dtype=np.int64)
        segments, everywhere = (self.size, *(0,) * (levels - 1)), np.ones((1, size), dtype=np.bool_)
        request = ClusterRequest(
            nodes, nodes, nodes, 1, True, nothing, nothing, everywhere, (0,) * levels, 0, segments
        )  # fmt: skip
        return [WaitingGang(FREE_RACKS, request)]

    def emptied(self, topology: NamedTree) -> BoolArray:
        """Return whether each node has to be emptied; raise `UsageError` for an unknown node."""
        marked = np.zeros(topology.tree.size, dtype=np.bool_)
        if self.drained:
            try:
                names = expand_hostlist(self.drained)
                if not names:
                    raise UsageError(f"--drain {self.drained!r} names no node")
                marked[topology.numbers(names)] = True
            except HostlistError as error:
                raise UsageError(f"--drain {self.drained}: {error}") from None
            except InvalidProblemError as error:
                raise UsageError(f"--drain {self.drained}: {error.fault}") from None
        return marked
