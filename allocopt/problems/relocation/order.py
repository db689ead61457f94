"""Find the order in which jobs stop, move and start, so that every step finds the room that it needs.

Stops come first and starts last: a stop only frees nodes, and a start only takes some. Between them, a move waits until
its new nodes are free. A move is *safe* if no other job that has still to move wants one of its new nodes; such a move
blocks no other and is done at once. If jobs move to whole nodes, every move whose nodes are free is safe. The
remaining jobs wait for one another in a circle, or for such jobs. As few of them as possible are parked. A search over
the sets of moved and parked jobs, fewest parked jobs first, finds them. If the search meets more than
`MOST_STATES` states, the job that blocks most others is parked instead.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from allocopt.problems.relocation.problem import (
    Action,
    Occupancy,
    PlacedJob,
    Places,
    Relocation,
    RelocationProblem,
    Step,
)

MOST_STATES = 2000


@dataclass(frozen=True, slots=True)
class Ordered:
    """A relocation with its steps, and whether it is proved that no order has fewer parked jobs."""

    relocation: Relocation
    is_least: bool


def ordered(problem: RelocationProblem, running: Sequence[Places | None], waiting: Sequence[Places]) -> Ordered:
    """Return the relocation that puts jobs on these nodes, with its steps.

    Parameters
    ----------
    running, waiting
        Nodes and tasks of every job at the end, as in `Relocation`; together they must fit.
    """
    target = Relocation(tuple(running), tuple(waiting))
    steps = [Step(Action.STOP, job.id) for job in target.stopped(problem)]
    moves = _Moves(problem, target)
    moved, is_least = moves.order()
    steps += moved
    steps += [Step(Action.START, gang.id) for gang, at in zip(problem.waiting, target.waiting, strict=True) if at]
    return Ordered(Relocation(target.running, target.waiting, tuple(steps)), is_least)


class _Moves:
    """The moves of a relocation, after its stops."""

    def __init__(self, problem: RelocationProblem, target: Relocation) -> None:
        self._room = Occupancy.at_first(problem)
        for job in target.stopped(problem):
            self._room.release(job.request, job.places)
        self._jobs: dict[str, PlacedJob] = {job.id: job for job in target.moved(problem)}
        pairs = zip(problem.running, target.running, strict=True)
        self._to = {job.id: at for job, at in pairs if job.id in self._jobs and at is not None}

    def order(self) -> tuple[list[Step], bool]:
        """Return the steps, and whether it is proved that no order parks fewer jobs."""
        steps: list[Step] = []
        pending = dict.fromkeys(self._jobs)
        wanted = Counter(node for job in pending for node, _ in self._to[job])
        while safe := [job for job in pending if self._is_safe(job, wanted)]:
            for job in safe:
                self._move(job, is_parked=False)
                steps.append(Step(Action.MOVE, job))
                wanted.subtract(node for node, _ in self._to[job])
                del pending[job]
        if not pending:
            return steps, True
        found = self._searched(tuple(pending))
        if found is not None:
            return [*steps, *found], True
        return [*steps, *self._greedy(list(pending))], False

    def _is_safe(self, job: str, wanted: Counter[int]) -> bool:
        is_only = all(wanted[node] == 1 for node, _ in self._to[job])
        return is_only and self._fits(job, is_parked=False)

    def _fits(self, job: str, is_parked: bool) -> bool:
        one = self._jobs[job]
        if not is_parked:
            self._room.release(one.request, one.places)
        fits = self._room.fits(one.request, self._to[job])
        if not is_parked:
            self._room.enter(one.id, one.request, one.places)
        return fits

    def _move(self, job: str, is_parked: bool) -> None:
        one = self._jobs[job]
        if not is_parked:
            self._room.release(one.request, one.places)
        self._room.enter(job, one.request, self._to[job])

    def _undo(self, steps: Sequence[Step]) -> None:
        """Put the jobs of these steps back on the nodes that they had before the first step."""
        for action, job in reversed(steps):
            one = self._jobs[job]
            if action is Action.MOVE:
                self._room.release(one.request, self._to[job])
        for job in {job for _, job in steps}:
            self._room.enter(job, self._jobs[job].request, self._jobs[job].places)

    def _do(self, steps: Sequence[Step]) -> None:
        parked: set[str] = set()
        for action, job in steps:
            if action is Action.PARK:
                self._room.release(self._jobs[job].request, self._jobs[job].places)
                parked.add(job)
            else:
                self._move(job, job in parked)

    def _searched(self, pending: Sequence[str]) -> list[Step] | None:
        """Return steps with the fewest parked jobs; None if the search meets too many states."""
        least = {(frozenset[str](), frozenset[str]()): 0}
        queue: list[tuple[int, int, tuple[Step, ...]]] = [(0, 0, ())]
        while queue and len(least) <= MOST_STATES:
            cost, _, steps = heappop(queue)
            done = frozenset(job for action, job in steps if action is Action.MOVE)
            parked = frozenset(job for action, job in steps if action is Action.PARK) - done
            if len(done) == len(pending):
                return list(steps)
            if least[done, parked] < cost:
                continue
            self._do(steps)
            movable = [job for job in pending if job not in done and self._fits(job, job in parked)]
            self._undo(steps)
            ways = [(cost, done | {job}, parked - {job}, Step(Action.MOVE, job)) for job in movable]
            staying = (job for job in pending if job not in done | parked)
            ways += [(cost + 1, done, parked | {job}, Step(Action.PARK, job)) for job in staying]
            for more, gone, out, step in ways:
                if more < least.get((gone, out), len(pending) + 1):
                    least[gone, out] = more
                    # The number of states breaks ties, so that the order is always the same.
                    heappush(queue, (more, len(least) + len(queue), (*steps, step)))
        return None

    def _greedy(self, pending: list[str]) -> list[Step]:
        """Return steps that move a job whenever one can move, and otherwise park the job that blocks most others."""
        steps: list[Step] = []
        parked: set[str] = set()
        while pending:
            ready = next((job for job in pending if self._fits(job, job in parked)), None)
            if ready is not None:
                self._move(ready, ready in parked)
                pending.remove(ready)
                steps.append(Step(Action.MOVE, ready))
                continue
            staying = [job for job in pending if job not in parked]
            in_way = max(staying, key=lambda job: self._wanted(self._jobs[job].places, pending))
            self._room.release(self._jobs[in_way].request, self._jobs[in_way].places)
            parked.add(in_way)
            steps.append(Step(Action.PARK, in_way))
        return steps

    def _wanted(self, places: Places, pending: Sequence[str]) -> int:
        nodes = {node for node, _ in places}
        return sum(not nodes.isdisjoint(node for node, _ in self._to[job]) for job in pending)
