"""Rules that place one job after the other without regard to costs: `sequential`, and the subclasses of `JobByJob`.

A new rule is a subclass of `JobByJob` with a name and a method ``take``, a method ``order`` if it changes the order of
the jobs, and a line in ``pyproject.toml``.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, IntArray, places_by_value
from allocopt.problems.topology.tables import encode
from allocopt.solving import Capabilities, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import Allocation, OneShot, Strategy, TopologyProblem, TopologySolver

LARGEST_WINDOW, MOST_JOBS = 1_000_000, 20_000


class Sequential(OneShot):
    """Give the jobs consecutive idle nodes in their order: the NSA paper's "Seq."; O(m)."""

    name: ClassVar[str] = "sequential"
    strategies: ClassVar[frozenset[Strategy]] = frozenset(Strategy)

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Return the sequential allocation."""
        return Allocation.sequential(problem)


class IdleSwitches:
    """The idle positions of every leaf and the idle counts of every switch, while jobs take nodes one by one."""

    def __init__(self, groups: IntArray) -> None:
        # `groups` has the group of each idle position per level below the top, shape (L - 1, m).
        levels = np.vstack((groups, np.zeros((1, groups.shape[1]), dtype=np.int64)))
        order = np.argsort(levels[0], kind="stable")
        first = np.flatnonzero(np.diff(levels[0][order], prepend=-1))
        self._positions: IntArray = order
        self._end = np.append(first[1:], len(order))
        # Switch of every level above each leaf, beginning with the leaf itself, shape (L, leaves).
        self.above_leaves = levels[:, order[first]]
        # Idle nodes of every switch, per level from the leaves up to the top switch, and the leaves under it.
        self.idle = [np.bincount(level) for level in levels]
        self.leaves = [places_by_value(groups) for groups in self.above_leaves]
        first_leaves = [np.unique(groups, return_index=True)[1] for groups in self.above_leaves]
        above = zip(first_leaves, self.above_leaves[1:], strict=False)
        # Switches of the level below under every switch, per level above the leaves.
        self.children = [places_by_value(groups[leaves]) for leaves, groups in above]

    def positions(self) -> IntArray:
        """Return the positions that are still idle, sorted."""
        runs = [self._positions[end - count : end] for end, count in zip(self._end, self.idle[0], strict=True)]
        return np.sort(np.concatenate(runs))

    def first_leaf(self) -> int:
        """Return the leaf of the first position that is still idle."""
        with_idle = np.flatnonzero(self.idle[0])
        first = self._positions[self._end[with_idle] - self.idle[0][with_idle]]
        return int(with_idle[np.argmin(first)])

    def take(self, leaves: Sequence[int], counts: Sequence[int]) -> IntArray:
        """Take the first ``counts`` idle positions of some leaves, and return them."""
        taken = []
        for leaf, count in zip(leaves, counts, strict=True):
            first = int(self._end[leaf]) - int(self.idle[0][leaf])
            taken.append(self._positions[first : first + count])
            for idle, group in zip(self.idle, self.above_leaves[:, leaf].tolist(), strict=True):
                idle[group] -= count
        return np.concatenate(taken)


class JobByJob(TopologySolver):
    """A `free` solver that places each job once. If the time runs out, the other jobs take the first idle nodes."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}), frozenset(), f"{LARGEST_WINDOW:,} idle nodes, {MOST_JOBS:,} jobs"
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_idle, n_jobs = len(problem.idle_nodes), len(problem.jobs)
        if n_idle <= LARGEST_WINDOW and n_jobs <= MOST_JOBS:
            return None
        return f"it has {n_idle:,} idle nodes and {n_jobs:,} jobs; supported are {self.capabilities.largest}"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs in the order of placement, by default that of the problem."""
        return np.arange(len(problem.jobs))

    @abstractmethod
    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take and return ``size`` idle positions for one job; at least this many are idle."""

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        switches = IdleSwitches(encode(problem).groups)
        order, sizes = self.order(problem).tolist(), problem.sizes.tolist()
        placed: dict[int, IntArray] = {}
        for job in order:
            if run.clock.expired():
                break
            placed[job] = self.take(switches, sizes[job])
        late = order[len(placed) :]
        # Placing the remaining jobs takes no time, so it needs no look at the clock.
        ends = np.cumsum([sizes[job] for job in late], dtype=np.int64)
        placed.update(zip(late, np.split(switches.positions(), ends)[: len(late)], strict=True))
        run.offer(Allocation.at(problem, [placed[job] for job in range(len(sizes))]))
        return StopReason.TIME_LIMIT if late else StopReason.COMPLETED


class BestFit(JobByJob):
    """Take the lowest switch with enough idle nodes, of several the one with the fewest, then best fit over its leaves.

    Under the switch a job takes leaf by leaf: the leaf with the fewest idle nodes that holds all missing nodes, or the
    leaf with most idle nodes if none does. O(leaves log leaves) per job. This rule is allocopt's; `slurm-tree` is
    Slurm's.
    """

    name: ClassVar[str] = "best-fit"

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        under = next(
            leaves[int(fitting[np.argmin(idle[fitting])])]
            for idle, leaves in zip(switches.idle, switches.leaves, strict=True)
            if len(fitting := np.flatnonzero(idle >= size))
        )
        idle = switches.idle[0][under]
        largest_first = np.argsort(-idle, kind="stable")
        # For each leaf: nodes that are still missing after all larger leaves have been taken.
        missing = size - np.cumsum(idle[largest_first]) + idle[largest_first]
        emptied = int(np.argmax(idle[largest_first] >= missing))
        left = largest_first[emptied:]
        fitting = np.sort(left[idle[left] >= missing[emptied]])
        last = fitting[np.argmin(idle[fitting])]
        counts = [*idle[largest_first[:emptied]].tolist(), int(missing[emptied])]
        leaves = [*under[largest_first[:emptied]].tolist(), int(under[last])]
        return switches.take(leaves, counts)


class BestFitByLevel(JobByJob):
    """Choose the best fit at every level of switches in turn, for jobs by decreasing size.

    From the top switch down, a job goes to the child switch with the fewest idle nodes that holds it. If none does, it
    takes all idle nodes of the child with most of them, and the missing nodes are found in the same way. O(switches)
    per job if it fits under few of them.
    """

    name: ClassVar[str] = "best-fit-by-level"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs by decreasing size, equal ones in the order of the problem."""
        order: IntArray = np.argsort(-problem.sizes, kind="stable")
        return order

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        # Nodes that every switch has to give to the job, level by level.
        counts = {0: size}
        for children, idle in reversed(list(zip(switches.children, switches.idle, strict=False))):
            above, counts = counts, {}
            for switch, missing in above.items():
                left = idle[children[switch]]
                while missing > 0:
                    fitting = np.flatnonzero(left >= missing)
                    chosen = int(fitting[np.argmin(left[fitting])] if len(fitting) else np.argmax(left))
                    counts[int(children[switch][chosen])] = min(missing, int(left[chosen]))
                    missing -= int(left[chosen])
                    left[chosen] = 0
        return switches.take(list(counts), list(counts.values()))


class LeafWalk(JobByJob):
    """Take leaf switch after leaf switch as Slurm's tree plugin does: the common part of its versions.

    A job takes leaves until it has its nodes. It finds each leaf by a walk along all leaves with idle nodes, in their
    order. The first leaf is the best one at first, each later one may replace the best one so far (`replaces`), and the
    job takes the best one at the end of the walk.

    Two leaves are compared by the switches above them (at the lowest level, by the leaves themselves), at a level below
    their common switch: the lowest one at which either switch has enough idle nodes for all that are missing. A switch
    with enough idle nodes fits better than one with too few; of two with enough, the one with fewer idle nodes fits
    better. If no switch has enough, the two are compared just below their common switch, where the one with more idle
    nodes fits better.

    The rule takes O(leaves) time for every leaf that is taken. All leaves count as equally far below the top switch.
    """

    @abstractmethod
    def replaces(self, nearer: IntArray, better: IntArray, has_enough: BoolArray) -> BoolArray:
        """Return whether each leaf replaces the best one so far.

        Parameters
        ----------
        nearer
            How many levels nearer each leaf is than the best one, summed over all taken leaves; negative if it is
            farther.
        better
            How much better each leaf fits than the best one; negative if it fits worse.
        has_enough
            Whether the leaf's switch has enough idle nodes, at the level at which the two are compared.
        """

    @abstractmethod
    def left_above(self, idle: IntArray, is_above: BoolArray, count: int) -> IntArray:
        """Return the idle counts of the switches above the leaves after a leaf is taken.

        Parameters
        ----------
        idle
            Idle counts before, by level and row of leaves.
        is_above
            Whether each of these switches is above the leaf.
        count
            Idle nodes of the leaf.
        """

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        # A row is a run of leaves below the same switch, which are equally near. Only its best leaf can win a walk.
        rows = np.flatnonzero(np.diff(switches.above_leaves[1:2].sum(axis=0), prepend=-1))
        above = switches.above_leaves[1:, rows]
        leaves_idle = switches.idle[0].copy()
        idle = np.stack([idle[groups[rows]] for idle, groups in zip(switches.idle, switches.above_leaves, strict=True)])
        distance = np.zeros(len(rows), dtype=np.int64)
        n_leaves = len(leaves_idle)
        leaves: list[int] = []
        counts: list[int] = []
        while size > 0:
            # The best fitting leaf of each row, of equal ones the first.
            ranks = _fit(leaves_idle, size) * n_leaves - np.arange(n_leaves)
            best = -np.maximum.reduceat(ranks, rows) % n_leaves
            idle[0] = leaves_idle[best]
            fit = _fit(idle, size)
            enough = np.argmax(idle >= size, axis=0)
            with_idle = np.flatnonzero(idle[0])
            row, later = int(with_idle[0]), with_idle[1:]
            while True:
                level = np.minimum(np.minimum(enough[later], enough[row]), _levels_apart(above, row)[later])
                replaces = self.replaces(
                    nearer=distance[row] - distance[later],
                    better=fit[level, later] - fit[level, row],
                    has_enough=idle[level, later] >= size,
                )
                found = np.flatnonzero(replaces)
                if not len(found):
                    break
                row, later = int(later[found[0]]), later[found[0] + 1 :]
            count = int(idle[0, row])
            leaves.append(int(best[row]))
            counts.append(min(size, count))
            size -= count
            leaves_idle[best[row]] = 0
            distance += _levels_apart(above, row)
            idle[1:] = self.left_above(idle[1:], is_above=above == above[:, [row]], count=count)
        return switches.take(leaves, counts)


class SlurmTree(LeafWalk):
    """Give a job the nodes that Slurm's tree topology plugin gives it, as of 26.05.

    This is what slurmctld does with ``select/cons_tres``, ``topology/tree`` and whole nodes of one weight: `LeafWalk`,
    in which a leaf replaces the best one so far

    - if it is nearer to the leaves taken before and has enough idle nodes for all that are missing, or the switch at
      whose level the two are compared has them, or
    - if it is as near to them and fits better.

    The switches above a leaf no longer count its nodes once the job has taken it. A job of one node gets the first idle
    node. Slurm does all this since 26.05. Versions 24.05.3 to 25.11 do the same, except for jobs of one node, which
    take the walk.
    """

    name: ClassVar[str] = "slurm-tree"

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        if size == 1:
            return switches.take([switches.first_leaf()], [1])
        return super().take(switches, size)

    def replaces(self, nearer: IntArray, better: IntArray, has_enough: BoolArray) -> BoolArray:
        found: BoolArray = ((nearer > 0) & has_enough) | ((nearer == 0) & (better > 0))
        return found

    def left_above(self, idle: IntArray, is_above: BoolArray, count: int) -> IntArray:
        return idle - count * is_above


class SlurmTree2205(LeafWalk):
    """Give a job the nodes that the tree topology plugin of Slurm 22.05 gives it; the rule was valid until 24.05.2.

    It differs from `SlurmTree` in three ways. A nearer leaf replaces the best one so far if it fits no worse, whether
    or not there are enough nodes. The switches above the leaves keep the idle counts from before the job: a pod of
    which the job has all nodes still counts as idle. And a job of one node takes the walk like any other.
    """

    name: ClassVar[str] = "slurm-tree-22.05"

    def replaces(self, nearer: IntArray, better: IntArray, has_enough: BoolArray) -> BoolArray:
        found: BoolArray = ((nearer > 0) & (better >= 0)) | ((nearer == 0) & (better > 0))
        return found

    def left_above(self, idle: IntArray, is_above: BoolArray, count: int) -> IntArray:
        return idle


def _fit(idle: IntArray, size: int) -> IntArray:
    """Return a number for each idle count; a higher number means that the count fits ``size`` nodes better."""
    return np.where(idle >= size, 2 * idle.max() + 1 - idle, idle)


def _levels_apart(above: IntArray, row: int) -> IntArray:
    """Return the number of levels from the leaves of each row and of ``row`` up to their common switch."""
    apart: IntArray = np.count_nonzero(above != above[:, [row]], axis=0)
    return apart
