"""The site's own record: starts and nodes in a trace as a schedule, and the regret of the chosen nodes."""

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

RECORDED = "as recorded"  # name of the record in columns of allocators and schedulers
_MOST_JUDGED = 1000  # starts or minutes that are judged, spread over the trace; each takes milliseconds as a rule
_TIME_LIMIT_S, _MINUTE_S = 1.0, 60.0
_MOST_NAMED = 3
_TOLERANCE = 1e-6


class Regret(NamedTuple):
    """The additional hop cost of recorded nodes, compared with the proven optima on the nodes that were available.

    ``judged`` windows were solved, for ``proved`` of them the optimum was proved, and in ``best`` of these the recorded
    nodes were optimal. ``chosen`` and ``least`` are the total hop costs of the recorded nodes and of the optima, over
    proved windows.
    """

    judged: int
    proved: int
    best: int
    chosen: float
    least: float

    @property
    def share(self) -> float:
        """Additional cost relative to the optima; 0 if nothing was proved."""
        return self.chosen / self.least - 1.0 if self.least else 0.0


@dataclass(frozen=True, eq=False)
class Record:
    """The jobs of a trace as they ran: those with recorded starts, on the nodes that are in the cluster."""

    schedule: Schedule  # its nodes are None if no recorded node is in the cluster
    cluster: NamedTree
    left_out: int  # jobs of the trace without a recorded start
    strangers: BoolArray  # whether each job ran on nodes that are not in the cluster, shape ``(n,)``
    unknown: tuple[str, ...]  # the names of these nodes
    cores: IntArray  # processors of each node, 1 if jobs get whole nodes

    @classmethod
    def of(cls, workload: Workload, cluster: NamedTree, cores: IntArray) -> "Record | None":
        """Return the record of a workload on nodes with ``cores`` processors; None if it has no recorded start."""
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
            # The processors of a trace that names nodes are nodes, so take those of jobs on shared nodes from requests.
            for job, request in enumerate(jobs.requests):
                if request is not None and request.is_exclusive:
                    processors[job] = cores[nodes[job]].sum() or processors[job]
                elif request is not None:
                    processors[job] = max(1, round((request.tasks or request.least_nodes) * request.cores_per_task))
            jobs = replace(jobs, processors=processors)
        # With times in whole seconds, a start may be recorded just before the submission.
        start = np.maximum(jobs.recorded_start, jobs.submit)
        where = (nodes, cluster.tree) if any(map(len, nodes)) else (None, None)
        schedule = Schedule(jobs, int(cores.sum()), jobs.submit, start, start + jobs.run, *where)
        unknown = tuple(dict.fromkeys(name for names in odd.values() for name in names))
        return cls(schedule, cluster, len(workload) - len(rows), strangers, unknown, cores)

    @cached_property
    def several(self) -> IntArray:
        """Jobs that ran on several nodes, all of them in the cluster."""
        sizes = np.array([len(held) for held in self.schedule.nodes or ()], dtype=np.int64)
        return np.flatnonzero((sizes > 1) & ~self.strangers[: len(sizes)])

    @cached_property
    def alone(self) -> IntArray:
        """Jobs of `several` that had their nodes exclusively at their start."""
        return self.several[~on_held_nodes(self.schedule)[self.several]]

    def regret(self) -> Regret:
        """Judge at most a thousand single starts, each with a limit of one second; all other jobs stay on their nodes.

        A job may use all nodes with as many processors as its recorded nodes, if enough of them were free for the part
        of the job on one node. A start is not judged if the recorded nodes had too few free processors, or if Slurm
        would not have chosen them.
        """
        jobs = _spread([[job] for job in self.several.tolist()])
        return self._judged((one, self._used(one) + self._on_each[one[0]] <= self.cores) for one in jobs)

    def regret_by_minute(self) -> Regret:
        """Judge together the starts of each minute on idle nodes of one kind, if there are at least two.

        The jobs may use the nodes that no other job held between the first and the last of these starts.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for job in self.alone[np.argsort(self.schedule.start[self.alone], kind="stable")].tolist():
            minute, kinds = self.schedule.start[job] // _MINUTE_S, np.unique(self.cores[self._held(job)])
            groups.setdefault((int(minute), *kinds.tolist()), []).append(job)
        together = []
        for jobs in _spread([jobs for jobs in groups.values() if len(jobs) > 1]):
            # Leave out jobs with a node that another job held between the first and the last of these starts. This
            # may change the first and the last start, so repeat until no job is left out.
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
        """Return remarks on gaps in the record, and on its regret, one line each."""
        lines = []
        if self.left_out:
            lines.append(f"{self.left_out:,} jobs have no recorded start and are left out of the record")
        if self.unknown:
            names = ", ".join(self.unknown[:_MOST_NAMED]) + (", ..." if len(self.unknown) > _MOST_NAMED else "")
            nodes = f"{len(self.unknown):,} nodes that are not in the topology ({names})"
            lines.append(f"{int(self.strangers.sum()):,} recorded jobs ran on {nodes}; these nodes are left out")
        if not len(self.several):
            return (*lines, "no regret: the record has no job on several known nodes")
        counts = f"{len(self.several):,} of {len(self.strangers):,} starts were on several nodes"
        lines.append(f"regret: {counts}, {len(self.alone):,} of them on idle nodes")
        for what, found in (("of single starts", self.regret()), ("by minutes", self.regret_by_minute())):
            counts = f"{found.judged:,} judged, {found.proved:,} proved, {found.best:,} best"
            lines.append(f"regret {what}: {100 * found.share:.1f} % more hops than needed ({counts})")
        return tuple(lines)

    @cached_property
    def _on_each(self) -> IntArray:
        # Processors of each job on each of its nodes, assumed to be spread evenly; one if jobs get whole nodes.
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
        # A window is a list of jobs, and whether each node is available to them.
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
    """Return whether each job started on a node that another job held, shape ``(n,)``; False if nodes are not known."""
    shared = np.zeros(len(schedule.start), dtype=np.bool_)
    if schedule.nodes is None or not any(map(len, schedule.nodes)):
        return shared
    job = np.repeat(np.arange(len(schedule.nodes)), [len(held) for held in schedule.nodes])
    node = np.concatenate(schedule.nodes).astype(np.int64)
    order = np.lexsort((schedule.start[job], node))
    job, node = job[order], node[order]
    start, end = schedule.start[job], schedule.end[job]
    # Shift the times of each node beyond those of the node before, so that one running maximum serves all.
    shift = node * (float(np.ptp(np.concatenate((start, end)))) + 1.0)
    held = np.zeros(len(job), dtype=np.bool_)
    held[1:] = np.maximum.accumulate(end + shift)[:-1] > (start + shift)[1:]
    # If jobs start together on a node, the first of them shares it, too.
    held[:-1] |= (np.diff(start) == 0) & (np.diff(node) == 0)
    shared[job[held]] = True
    return shared


def _spread(windows: list[list[int]]) -> list[list[int]]:
    kept = np.linspace(0, len(windows) - 1, min(len(windows), _MOST_JUDGED)).round().astype(int)
    return [windows[place] for place in kept.tolist()]
