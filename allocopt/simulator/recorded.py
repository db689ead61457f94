"""What a site did itself: starts and nodes of a trace as a schedule, and how far from the best its nodes were."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import hop_costs
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.side_constraints import SideConstraints
from allocopt.simulator.schedule import HOP_COST, Schedule
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Status
from allocopt.solving.solve import prepare, solve
from allocopt.traces.workload import Workload

RECORDED = "as recorded"  # name of what the site did, where allocators and schedulers are named
_MOST_JUDGED = 1000  # starts, and minutes, spread over the trace: each takes milliseconds on most machines
_TIME_LIMIT_S, _MINUTE_S = 1.0, 60.0
_MOST_NAMED = 3
_TOLERANCE = 1e-6


class Regret(NamedTuple):
    """How many more hops recorded nodes cost than the proven optimum on what was to be had.

    Numbers of windows that were judged, whose optimum was proved, and that were optimal themselves; over those that
    were proved the total hop cost of the recorded nodes and of the optima.
    """

    judged: int
    proved: int
    best: int
    chosen: float
    least: float

    @property
    def share(self) -> float:
        """Cost beyond the optima, relative to them; 0 where nothing was proved."""
        return self.chosen / self.least - 1.0 if self.least else 0.0


@dataclass(frozen=True, eq=False)
class Record:
    """The jobs of a trace as they ran: those whose starts it tells, on the nodes that the cluster knows."""

    schedule: Schedule  # its nodes are None where the cluster knows none
    cluster: NamedTree
    left_out: int  # jobs of the trace without a start
    strangers: BoolArray  # jobs on nodes that the cluster does not know, shape ``(n,)``
    unknown: tuple[str, ...]  # the names of these nodes
    cores: IntArray  # processors of each node, 1 where nodes are whole

    @classmethod
    def of(cls, workload: Workload, cluster: NamedTree, cores: IntArray) -> "Record | None":
        """Return the record of a workload on nodes of so many processors; None if it tells no start."""
        rows = np.flatnonzero(~np.isnan(workload.recorded_start))
        if not len(rows):
            return None
        jobs = workload.subset(rows)
        numbers = {name: number for number, name in enumerate(cluster.nodes)}
        lists = {text: expand_hostlist(text) for text in dict.fromkeys(jobs.recorded_nodes.tolist())}
        held = {text: sorted({numbers[name] for name in names if name in numbers}) for text, names in lists.items()}
        nodes = tuple(np.array(held[text], dtype=np.int64) for text in jobs.recorded_nodes)
        odd = {text: [name for name in names if name not in numbers] for text, names in lists.items()}
        strangers = np.array([bool(odd[text]) for text in jobs.recorded_nodes], dtype=np.bool_)
        if cores.max() > 1:
            processors = jobs.processors.copy()
            # A trace that tells nodes counts these, and requests tell what jobs on shared nodes hold.
            for job, request in enumerate(jobs.requests):
                if request is not None and request.is_exclusive:
                    processors[job] = cores[nodes[job]].sum() or processors[job]
                elif request is not None:
                    processors[job] = max(1, round((request.tasks or request.least_nodes) * request.cores_per_task))
            jobs = replace(jobs, processors=processors)
        # A clock of seconds may tell a start a moment before the submission.
        start = np.maximum(jobs.recorded_start, jobs.submit)
        where = (nodes, cluster.tree) if any(map(len, nodes)) else (None, None)
        schedule = Schedule(jobs, int(cores.sum()), jobs.submit, start, start + jobs.run, *where)
        unknown = tuple(dict.fromkeys(name for names in odd.values() for name in names))
        return cls(schedule, cluster, len(workload) - len(rows), strangers, unknown, cores)

    @cached_property
    def several(self) -> IntArray:
        """Jobs that ran on several nodes, all known."""
        sizes = np.array([len(held) for held in self.schedule.nodes or ()], dtype=np.int64)
        return np.flatnonzero((sizes > 1) & ~self.strangers[: len(sizes)])

    @cached_property
    def alone(self) -> IntArray:
        """Those of these on whose nodes no other job was at their start."""
        return self.several[~on_held_nodes(self.schedule)[self.several]]

    def regret(self) -> Regret:
        """Judge at most a thousand starts, each by itself and for a second: all other jobs lie where they were.

        Its own nodes and those with processors left for its part are to be had, of as many processors as its own; those
        that had more than was left are not judged, nor those on nodes that Slurm would not give them.
        """
        jobs = _spread([[job] for job in self.several.tolist()])
        return self._judged((one, self._used(one) + self._on_each[one[0]] <= self.cores) for one in jobs)

    def regret_by_minute(self) -> Regret:
        """Judge the starts on idle nodes of each minute together, where there are several on nodes of one kind.

        To be had are nodes that no other job held between the first and the last of them.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for job in self.alone[np.argsort(self.schedule.start[self.alone], kind="stable")].tolist():
            minute, kinds = self.schedule.start[job] // _MINUTE_S, np.unique(self.cores[self._held(job)])
            groups.setdefault((int(minute), *kinds.tolist()), []).append(job)
        together = []
        for jobs in _spread([jobs for jobs in groups.values() if len(jobs) > 1]):
            # Jobs whose nodes another one held meanwhile are left out, until none is.
            before = 0
            while len(jobs) not in (0, before):
                idle, kept, before = self._used(jobs) == 0, [], len(jobs)
                for job in jobs:
                    held = self._held(job)
                    if idle[held].all():
                        kept.append(job)
                        idle[held] = False
                jobs = kept
            if len(jobs) > 1:
                together.append(jobs)
        return self._judged((jobs, self._used(jobs) == 0) for jobs in together)

    def remarks(self) -> tuple[str, ...]:
        """Return what is odd about the record, and its regret, a sentence each."""
        lines = []
        if self.left_out:
            lines.append(f"{self.left_out:,} jobs have no recorded start and are left out of the record")
        if self.unknown:
            names = ", ".join(self.unknown[:_MOST_NAMED]) + (", ..." if len(self.unknown) > _MOST_NAMED else "")
            nodes = f"{len(self.unknown):,} nodes that the topology does not know ({names})"
            lines.append(f"{int(self.strangers.sum()):,} recorded jobs ran on {nodes}, which are left out")
        if not len(self.several):
            return (*lines, "no regret: the record has no nodes of jobs of several nodes")
        counts = f"{len(self.several):,} of {len(self.strangers):,} starts were on several nodes"
        lines.append(f"regret: {counts}, {len(self.alone):,} of them on idle ones")
        for what, found in (("alone", self.regret()), ("by minutes", self.regret_by_minute())):
            counts = f"{found.judged:,} judged, {found.proved:,} proved, {found.best:,} best"
            lines.append(f"regret {what}: {100 * found.share:.1f} % more hops than needed ({counts})")
        return tuple(lines)

    @cached_property
    def _on_each(self) -> IntArray:
        # Processors of each job on each of its nodes, evenly, for the record does not tell; one of whole nodes.
        sizes = np.array([max(len(held), 1) for held in self.schedule.nodes or ()], dtype=np.int64)
        return np.asarray(np.minimum(-(-self.schedule.workload.processors // sizes), self.cores.max()))

    def _held(self, job: int) -> IntArray:
        assert self.schedule.nodes is not None
        return self.schedule.nodes[job]

    def _used(self, jobs: list[int]) -> IntArray:
        # Processors that other jobs held on each node at any time between the first and the last start of some jobs.
        start, end = self.schedule.start, self.schedule.end
        running = (start <= start[jobs].max()) & (end > start[jobs].min())
        running[jobs] = False
        used = np.zeros(self.cluster.tree.size, dtype=np.int64)
        for job in np.flatnonzero(running).tolist():
            used[self._held(job)] += self._on_each[job]
        return used

    def _judged(self, windows: Iterable[tuple[list[int], BoolArray]]) -> Regret:
        # Each window is some jobs, and which nodes they may have.
        judged, chosen, least = 0, [], []
        solver, tree = get_solver("exact"), self.cluster.tree
        for jobs, free in windows:
            held = [self._held(job) for job in jobs]
            most = [self.cluster.most_groups(len(nodes)) for nodes in held]
            rules = [SideConstraints(within=groups.index(1) + 1) if 1 in groups else None for groups in most]
            broken = (rule and rule.broken_rule(tree, nodes) for rule, nodes in zip(rules, held, strict=True))
            if not free[np.concatenate(held)].all() or any(broken):
                continue
            asked = tuple(Job(*job) for job in zip(map(str, jobs), map(len, held), rules, strict=True))
            alike = np.isin(self.cores, self.cores[np.concatenate(held)])
            problem = TopologyProblem(tree, np.flatnonzero(free & alike), asked, HOP_COST)
            prepare(solver, [problem])
            found = solve(problem, strategy="free", solver=solver, time_limit=_TIME_LIMIT_S)
            judged += 1
            if found.status is Status.OPTIMAL and found.objective is not None:
                chosen.append(float(hop_costs(tree, HOP_COST, held).sum()))
                least.append(found.objective)
        best = sum(one <= other * (1 + _TOLERANCE) for one, other in zip(chosen, least, strict=True))
        return Regret(judged, len(least), best, sum(chosen), sum(least))


def on_held_nodes(schedule: Schedule) -> BoolArray:
    """Whether each job started on a node that another job held, shape ``(n,)``; none did if nodes are not known."""
    shared = np.zeros(len(schedule.start), dtype=np.bool_)
    if schedule.nodes is None or not any(map(len, schedule.nodes)):
        return shared
    job = np.repeat(np.arange(len(schedule.nodes)), [len(held) for held in schedule.nodes])
    node = np.concatenate(schedule.nodes).astype(np.int64)
    order = np.lexsort((schedule.start[job], node))
    job, node = job[order], node[order]
    start, end = schedule.start[job], schedule.end[job]
    # Each node's times are shifted beyond those of the node before, so that one running maximum serves all.
    shift = node * (float(np.ptp(np.concatenate((start, end)))) + 1.0)
    held = np.zeros(len(job), dtype=np.bool_)
    held[1:] = np.maximum.accumulate(end + shift)[:-1] > (start + shift)[1:]
    # Of jobs that start together on a node the first has company, too.
    held[:-1] |= (np.diff(start) == 0) & (np.diff(node) == 0)
    shared[job[held]] = True
    return shared


def _spread(windows: list[list[int]]) -> list[list[int]]:
    kept = np.linspace(0, len(windows) - 1, min(len(windows), _MOST_JUDGED)).round().astype(int)
    return [windows[place] for place in kept.tolist()]
