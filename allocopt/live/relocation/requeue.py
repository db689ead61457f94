"""Carries out a relocation by ``scontrol requeue``, step by step: a step begins when a look shows the one before done.

The next action follows from what a look shows: an unanswered request is repeated if it had no effect. A job is marked
in its administrator's comment before it is requeued. Slurm would let the job begin after two minutes; a pin to its new
nodes starts it earlier. A reservation, which ends automatically, keeps the gang's nodes free.
"""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.slurm_jobs import RUNNING
from allocopt.live.journal import Journal
from allocopt.live.pins import FREE, cleared, mark_of, pinned, requeued
from allocopt.live.relocation.plan import RelocationLimits, RelocationPlan
from allocopt.live.slurm import Look, Slurm, SlurmJob, SlurmRefusedError
from allocopt.problems.relocation.problem import GETS_NODES, Action, Step

RESERVATION = "allocopt_"
"""Prefix of the names of reservations that keep the nodes of a gang."""
HOUR_S = 3600.0
HOLD_S = 60.0  # seconds of a hold of a job that has left; reservations last twice as long; both are renewed
# First words of the node states in sinfo that the relocation itself causes, or (unknown) a restart of slurmctld.
_PASSING_STATES = ("completing", "reserved", "unknown")


@dataclass(slots=True)
class Course:
    """A plan that is being carried out.

    Parameters
    ----------
    left
        The steps that no look has shown to be done.
    requeued, answered
        Ids of the jobs that Slurm was asked to requeue, and of those for which it accepted the request.
    pinned
        Ids of the jobs that were pinned to their new nodes.
    since_s
        When a look last showed a step to be done, by `time.monotonic`.
    """

    plan: RelocationPlan
    begun_s: float
    since_s: float
    left: list[Step]
    requeued: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    pinned: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, plan: RelocationPlan) -> "Course":
        """Return the course of a plan before its first step."""
        now = time.monotonic()
        return cls(plan, now, now, list(plan.relocation.steps))

    @property
    def reservation(self) -> str:
        """Name of the reservation of the gang's nodes."""
        return f"{RESERVATION}{self.plan.gang.id}"

    @property
    def reserved(self) -> list[str]:
        """The nodes of the gang that no other job of the plan gets."""
        gang = self.plan.gang.id
        others = {node for job, nodes in self.plan.nodes.items() if job != gang for node in nodes}
        return [node for node in self.plan.nodes[gang] if node not in others]

    def knows(self, job: str) -> bool:
        """Return whether a job is part of the plan."""
        return job == self.plan.gang.id or job in self.plan.leaving

    def has_its_old_nodes(self, job: SlurmJob) -> bool:
        """Return whether a job still runs as it did before the plan."""
        before = self.plan.before.get(job.id)
        return before is not None and _runs(job) and job.start_s == before.start_s

    def is_done(self, step: Step, job: SlurmJob | None) -> bool:
        """Return whether a step is done, given its job as a look shows it."""
        if step.action not in GETS_NODES:
            return job is not None and job.state == "PENDING" and job.id in self.requeued
        if step.job in self.pinned and (job is None or not (job.state in ("PENDING", "CANCELLED") or _runs(job))):
            # The job has started, and already ended.
            return True
        is_new = job is not None and _runs(job) and not self.has_its_old_nodes(job)
        return is_new and job is not None and job.allocated.keys() == set(self.plan.nodes[step.job])

    def faults(self, look: Look, step_s: float) -> Iterator[str]:
        """Yield the deviations from the plan that a look shows."""
        step, jobs = self.left[0], {job.id: job for job in look.jobs}
        if time.monotonic() - self.since_s > step_s:
            yield f"{step.action} of job {step.job} took more than {step_s:g} s"
        gang = jobs.get(self.plan.gang.id)
        if gang is None or gang.state != "PENDING":
            yield f"job {self.plan.gang.id} has started elsewhere or was cancelled"
        for _, job in self.left:
            if job != self.plan.gang.id and (fault := self._fault_of(job, jobs.get(job))):
                yield fault
        targets = {node for action, job in self.left if action in GETS_NODES for node in self.plan.nodes[job]}
        gone = (node for node in sorted(targets & look.away.keys()) if not look.away[node].startswith(_PASSING_STATES))
        yield from (f"node {node} is {look.away[node]}" for node in gone)
        for one in look.jobs:
            is_there = _runs(one) and not targets.isdisjoint(one.allocated)
            if is_there and not self.knows(one.id) and not self.has_its_old_nodes(one):
                yield f"job {one.id} has taken node {sorted(targets & one.allocated.keys())[0]}"

    def _fault_of(self, name: str, job: SlurmJob | None) -> str:
        is_requeued = name in self.requeued
        if job is None or not (job.state == "PENDING" or job.state in RUNNING):
            return f"job {name} has ended"
        if job.state == "PENDING" and not is_requeued:
            return f"job {name} was requeued by somebody else"
        if job.state == "COMPLETING" and not is_requeued:
            return f"job {name} is about to end"
        if _runs(job) and not self.has_its_old_nodes(job):
            return f"job {name} has started on {fold_hostlist(job.allocated)}"
        return ""


@dataclass(slots=True)
class Requeue:
    """Carries plans out, one at a time, and releases what is left over from earlier ones."""

    acts: ClassVar[bool] = True

    slurm: Slurm
    journal: Journal
    limits: RelocationLimits
    _course: Course | None = None
    _requeued_s: dict[str, float] = field(default_factory=dict)  # when jobs were requeued, in s since 1970

    @property
    def is_under_way(self) -> bool:
        """Whether a plan is being carried out."""
        return self._course is not None

    def may_plan(self, look: Look) -> bool:
        """Return whether no plan is under way, and no recently requeued job still waits or leaves its nodes."""
        lately = look.now_s - 2 * self.limits.step
        jobs = (job for job in look.jobs if self._requeued_s.get(job.id, -math.inf) > lately)
        return self._course is None and not any(job.state in ("PENDING", "COMPLETING") for job in jobs)

    def begin(self, look: Look, plan: RelocationPlan) -> None:
        """Accept a plan unless it would requeue more jobs than an hour allows."""
        lately = sum(look.now_s - HOUR_S < at_s for at_s in self._requeued_s.values())
        left = self.limits.per_hour - lately
        if len(plan.leaving) > left:
            why = f"{len(plan.leaving)} jobs would have to leave, but only {left} more may be requeued in this hour"
            self.journal.write("relocation dropped", look.now_s, job=plan.gang.id, requeued=0, why=why)
            return
        self._course = Course.of(plan)

    def step(self, look: Look, by_ms: int) -> None:
        """Continue the plan by a look."""
        # Marks show which jobs an earlier service has requeued.
        self._requeued_s |= {job.id: job.mark["requeued"] for job in look.jobs if "requeued" in job.mark}
        kept_s = max(HOUR_S, 2 * self.limits.step)
        self._requeued_s = {job: at_s for job, at_s in self._requeued_s.items() if look.now_s - at_s <= kept_s}
        if self._course is not None:
            self._advance(look, self._course, by_ms)
        self._free_leftovers(look, by_ms)

    def _advance(self, look: Look, course: Course, by_ms: int) -> None:
        jobs = {job.id: job for job in look.jobs}
        while course.left and course.is_done(course.left[0], jobs.get(course.left[0].job)):
            action, name = course.left.pop(0)
            course.since_s = time.monotonic()
            is_seen = name in jobs and _runs(jobs[name])
            if action is Action.MOVE:
                event, nodes = "moved" if is_seen else "unseen", fold_hostlist(course.plan.nodes[name])
                self.journal.write(event, look.now_s, job=name, nodes=nodes)
            elif action is Action.START:
                seconds = round(time.monotonic() - course.begun_s, 3)
                self._end(look, course, "relocation done", seconds=seconds, as_pinned=is_seen)
                return
        if fault := next(course.faults(look, self.limits.step), ""):
            self._end(look, course, "relocation dropped", why=fault)
            return
        try:
            self._act(look, course, jobs[course.left[0].job], by_ms)
            self._hold_on(look, course)
        except SlurmRefusedError as error:
            self.journal.write("refused", look.now_s, job=course.left[0].job, why=str(error))
            self._end(look, course, "relocation dropped", why=str(error))

    def _end(self, look: Look, course: Course, event: str, **told: object) -> None:
        # `_free_leftovers` releases the holds and the reservation of the course.
        self._course = None
        gang, requeued = course.plan.gang.id, len(course.requeued)
        self.journal.write(event, look.now_s, job=gang, requeued=requeued, **told)

    def _act(self, look: Look, course: Course, job: SlurmJob, by_ms: int) -> None:
        """Do the next step, or the next part of it."""
        action = course.left[0].action
        if action is not Action.START:
            self._reserve(look, course)
            if course.has_its_old_nodes(job):
                self._requeue(look, course, job, by_ms)
                return
        if action in GETS_NODES and job.state == "PENDING":
            self._pin(look, course, job, by_ms)
        if action is Action.START and any(one.name == course.reservation for one in look.closures):
            self.slurm.end_reservation(course.reservation)

    def _reserve(self, look: Look, course: Course) -> None:
        end_s = next((one.end_s for one in look.closures if one.name == course.reservation), None)
        if course.reserved and (end_s is None or end_s - look.now_s < HOLD_S):
            until_s = look.now_s + 2 * HOLD_S
            self.slurm.reserve(course.reservation, course.reserved, until_s, anew=end_s is None)

    def _requeue(self, look: Look, course: Course, job: SlurmJob, by_ms: int) -> None:
        if job.id in course.answered:
            return
        # Mark the job first, so that a later service or ``release`` finds it.
        self.slurm.update([job.id], **requeued(job, mark_of(job, by_ms), look.now_s))
        course.requeued.add(job.id)
        self._requeued_s[job.id] = look.now_s
        self.slurm.requeue(job.id)
        course.answered.add(job.id)
        self.journal.write("requeued", look.now_s, job=job.id, gang=course.plan.gang.id)

    def _pin(self, look: Look, course: Course, job: SlurmJob, by_ms: int) -> None:
        # A pin from before the requeue does not count.
        if job.id not in course.pinned:
            nodes, mark = course.plan.nodes[job.id], mark_of(job, by_ms)
            if job.id in course.requeued:
                mark += f" requeued={int(self._requeued_s.get(job.id, look.now_s))}"
            self.slurm.update([job.id], **pinned(job, nodes, mark, look.now_s))
            self.journal.write("pinned", look.now_s, job=job.id, nodes=fold_hostlist(nodes))
        course.pinned.add(job.id)

    def _hold_on(self, look: Look, course: Course) -> None:
        """Renew the holds of jobs that have left their nodes and are not pinned to new ones yet."""
        until = f"{datetime.fromtimestamp(look.now_s + HOLD_S, UTC):%Y-%m-%dT%H:%M:%S}"
        held = [
            job.id
            for job in look.jobs
            if job.id in course.requeued - course.pinned
            and job.state == "PENDING"
            and job.begin_s - look.now_s < HOLD_S / 2
        ]
        if held:
            self.slurm.update(held, StartTime=until)

    def _free_leftovers(self, look: Look, by_ms: int) -> None:
        """Release what no plan needs any more, whether from this service or an earlier one that was killed."""
        course = self._course
        for one in look.closures:
            if one.name.startswith(RESERVATION) and (course is None or one.name != course.reservation):
                with suppress(SlurmRefusedError):
                    self.slurm.end_reservation(one.name)
        for job in look.jobs:
            since_s = max(job.mark.get("pinned", 0), job.mark.get("requeued", 0))
            if job.state != "PENDING" or not since_s or (course is not None and course.knows(job.id)):
                continue
            # The clock may have been set back.
            if job.mark.get("by") == by_ms or not 0 <= look.now_s - since_s <= 2 * self.limits.step:
                with suppress(SlurmRefusedError):
                    self.slurm.update([job.id], **cleared(job), **FREE)
                    self.journal.write("freed", look.now_s, job=job.id)


def _runs(job: SlurmJob) -> bool:
    return job.state in RUNNING and job.state != "COMPLETING"
