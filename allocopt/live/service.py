"""The service beside a running Slurm: it looks, plans, and, where it may, pins jobs to their nodes.

What it holds ends by itself: a job is held by the time at which it may begin, some seconds ahead, which is put off as
long as the service runs. What it has pinned is written into the job's administrator's comment, so that any later run,
or ``allocopt live release``, finds and ends it.
"""

import subprocess
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from allocopt.child_process import child_environment, module_command
from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
from allocopt.cluster.slurm_jobs import TASK_LIMIT
from allocopt.errors import UsageError
from allocopt.live.journal import FORMAT, VERSION, Journal
from allocopt.live.lock import only_service
from allocopt.live.order import LiveOrder, nice_of
from allocopt.live.pins import FREE, cleared, mark_of, pinned
from allocopt.live.plan import Plan, Queue, ordered, plan, queue_of, started_alone
from allocopt.live.relocation.plan import RelocationQuestion
from allocopt.live.relocation.relocator import Relocator
from allocopt.live.relocation.requeue import RESERVATION
from allocopt.live.savings import expected_savings
from allocopt.live.slurm import (
    ANSWER_S,
    MARK,
    WAITING,
    Look,
    Slurm,
    SlurmError,
    SlurmJob,
    SlurmRefusedError,
)
from allocopt.live.solver_process import SolverProcess
from allocopt.live.state import StateWriter
from allocopt.problems.instances import object_from_problem
from allocopt.report.provenance import provenance
from allocopt.solving.result import Status
from allocopt.solving.solution_files import object_from_result
from allocopt.solving.windows import check_window_solver

CLUSTER_ANEW_S = 600.0  # after which nodes and partitions are asked for again
SOON_S = 0.1  # after which Slurm is looked at again where something is about to change
STEPS_S = 0.5  # after which Slurm is looked at again while jobs are relocated
LEAVING_S = 5.0  # for which a job that leaves its nodes is waited for
AGAIN_S = 2.0  # after which a Slurm that did not answer is asked again
WAKE_S = 0.02  # between two looks at the file that wakes


class Mode(StrEnum):
    """How the service acts."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ORDER = "order"
    PIN = "pin"

    @property
    def acts(self) -> bool:
        """Whether jobs are told anything."""
        return self in (Mode.ORDER, Mode.PIN)


@dataclass(frozen=True, slots=True)
class OptIn:
    """Which jobs are looked after: those of a partition, a quality of service, or with a word in their comment."""

    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    comment: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is asked of a job."""
        return not (self.partitions or self.qos or self.comment)

    def __call__(self, job: SlurmJob) -> bool:
        """Return whether a job has opted in."""
        words = job.comment.replace(",", " ").split()
        return self.is_all or job.partition in self.partitions or job.qos in self.qos or self.comment in words


@dataclass(frozen=True, slots=True)
class Limits:
    """Times of the service in seconds.

    Parameters
    ----------
    period
        Between two looks.
    solve
        For each window.
    hold
        After which a job that is held here may begin by itself. While Slurm cannot be looked at, jobs are held on for
        as long again.
    pin
        After which a job that has not started on its nodes may start anywhere.
    """

    period: float
    solve: float
    hold: float
    pin: float

    def __post_init__(self) -> None:
        for name, seconds in asdict(self).items():
            if not 0 < seconds <= 86_400:
                raise UsageError(f"{name} is {seconds:g} s, must be above 0 and at most 86400")
        if self.hold < 2 * self.period:
            raise UsageError(f"hold is {self.hold:g} s, must be at least two periods of {self.period:g} s")

    @property
    def answer(self) -> float:
        """Seconds for which Slurm's answer is waited, within which no hold ends."""
        return min(ANSWER_S, self.hold / 4)


@dataclass(slots=True)
class Service:
    """A service of one cluster.

    Parameters
    ----------
    slurm, journal
        The cluster, and where everything is written.
    mode, opted_in
        How it acts, and on which jobs.
    solver, seed
        Of windows, by the names of `allocopt.get_solver`.
    limits
        Its times.
    wake
        A file; when it changes, the next look is taken at once.
    order
        The order of the jobs that opted in, among themselves; None for Slurm's.
    relocator
        Makes room for gangs that wait by running jobs that stop or move; None for nobody.
    """

    slurm: Slurm
    journal: Journal
    mode: Mode
    opted_in: OptIn
    limits: Limits
    solver: str = "auto"
    seed: int = 0
    wake: Path | None = None
    order: LiveOrder | None = None
    relocator: Relocator | None = None
    _seen: set[str] = field(default_factory=set)
    _refused: set[str] = field(default_factory=set)
    _told: dict[str, str] = field(default_factory=dict)
    _savings: tuple[int, int, int] | None = None  # as written last
    _pins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _judged: Look | None = None
    _states: StateWriter = field(default_factory=StateWriter)
    _is_away: bool = False
    _held: set[str] = field(default_factory=set)
    _looked_s: float = 0.0
    _leaving: set[str] = field(default_factory=set)
    _left_by_s: float = 0.0
    _begun_ms: int = 0
    _older: frozenset[tuple[str, str]] | None = None
    _is_second: bool = False
    _solving: SolverProcess = field(init=False)

    def __post_init__(self) -> None:
        tried = (RelocationQuestion.sample(),) if self.relocator is not None else ()
        self._solving = SolverProcess(self.solver, self.limits.solve, self.seed, tried)

    @property
    def _acts(self) -> bool:
        return self.mode.acts or (self.relocator is not None and self.relocator.acts)

    def run(self, seconds: float | None = None) -> None:
        """Serve for so long, or until Ctrl-C; what is held and pinned is released at the end.

        Raises `SlurmError` if Slurm does not answer at the beginning, or lets nobody act as it was asked to.
        """
        check_window_solver(self.solver)
        if self._acts and self.opted_in.is_all:
            acting = self.mode if self.mode.acts else "relocate requeue"
            raise UsageError(f"--{acting} is for jobs that opted in: by --partition, --qos or --comment")
        cluster = self.slurm.cluster()
        for partition in self.opted_in.partitions:
            cluster.partition(partition)
        config = self.slurm.config()
        begun, self._begun_ms = time.monotonic(), time.time_ns() // 1_000_000
        with _only_one(config), self._watched(), self._solving:
            look = self.slurm.look()
            # What runs already was not seen to start.
            self._seen.update(job.id for job in look.jobs if job.allocated)
            self._judged = look
            self.journal.write(
                "begun", look.now_s, format=FORMAT, format_version=VERSION, mode=self.mode, solver=self.solver,
                seed=self.seed, nodes=cluster.size, summary=cluster.summary(), remarks=list(cluster.remarks),
                limits=asdict(self.limits),
                **provenance(),
            )  # fmt: skip
            self._states.about = {
                "mode": self.mode, "solver": self.solver, "since": look.now_s, "period": self.limits.period,
                "cluster": config.get("ClusterName", ""),
            }  # fmt: skip
            try:
                anew, before = begun, self._touched()
                while seconds is None or time.monotonic() - begun < seconds:
                    at, touched, pause_s = time.monotonic(), self._touched(), self.limits.period
                    try:
                        if at - anew > CLUSTER_ANEW_S:
                            self.slurm.cluster(anew=True)
                            anew = at
                        look = self.slurm.look()
                        self._looked_s = at
                        self.step(look)
                        self._tell_away(None)
                        # Who wakes us while it submits a job may be ahead of Slurm.
                        if touched != before or self._is_about_to_change(look):
                            pause_s = min(SOON_S, pause_s)
                        before = touched
                    except SlurmError as error:
                        self._tell_away(error)
                        self._put_off()
                        pause_s = min(AGAIN_S, pause_s)
                    if self.relocator is not None and self.relocator.is_under_way:
                        pause_s = min(STEPS_S, pause_s)
                    while (left := at + pause_s - time.monotonic()) > 0 and self._touched() == touched:
                        time.sleep(left if self.wake is None else min(left, WAKE_S))
            finally:
                if self._acts and not self._is_second:
                    with suppress(SlurmError):
                        released = release(self.slurm)
                        self.journal.write("released", time.time(), jobs=released)
                self.journal.write("ended", time.time())

    def _is_about_to_change(self, look: Look) -> bool:
        jobs = {job.id for job in look.jobs if job.state == "COMPLETING"}
        leaving = jobs | {node for node, state in look.away.items() if state.startswith("completing")}
        if leaving - self._leaving:
            self._left_by_s = time.monotonic() + LEAVING_S
        self._leaving = leaving
        return bool(leaving) and time.monotonic() < self._left_by_s

    def _touched(self) -> int:
        try:
            return self.wake.stat().st_mtime_ns if self.wake is not None else 0
        except OSError:
            return 0

    def step(self, look: Look) -> None:
        """Do what one look asks for."""
        # Who waits comes first; what has started can be judged later.
        if self.order is not None:
            self.order.learn(look)
        if self.mode is not Mode.OBSERVE or self._acts:
            self._check_alone(look)
        if self.mode is Mode.ORDER:
            self._place(look)
        elif self.mode is not Mode.OBSERVE:
            self._plan(look)
        if self.relocator is not None:
            self.relocator.step(look, self._solving, self._begun_ms)
        self._judge(look)
        self._states.write(self.journal, look)

    def _check_alone(self, look: Look) -> None:
        # Tasks of an array come one after another with its mark.
        # Those of jobs that run count, too: they may be queued again.
        marks = {(job.id.partition("_")[0], job.admin_comment): job.mark.get("by", 0) for job in look.jobs}
        older = frozenset(mark for mark, by in marks.items() if 0 < by < self._begun_ms)
        # One that was killed has left marks, but makes no more.
        if self._older is not None and older - self._older:
            # It looks after what is marked here, too.
            self._is_second = True
            begun = datetime.fromtimestamp(min(marks[mark] for mark in older - self._older) / 1000, UTC)
            raise UsageError(
                f"another service, begun at {begun:%Y-%m-%dT%H:%M:%SZ} on another machine, holds jobs here"
            )
        self._older = self._older or older

    def _plan(self, look: Look) -> None:
        began = time.perf_counter()
        name = f"{datetime.fromtimestamp(look.now_s, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3]
        slurms = Queue.of(look)
        queue = ordered(look, slurms, self.order, self.opted_in)
        if self.mode is Mode.ADVISE and self.order is not None:
            self._tell_savings(look, slurms, queue, self.order)
        found = plan(look, self._is_free, name, queue)
        planned = time.perf_counter()
        self._tell_left(look, found.left)
        chosen = self._solved(look, found, planned - began)
        if self.mode is Mode.PIN:
            self._act(look, chosen)

    def _tell_savings(self, look: Look, slurms: Queue, queue: Queue, order: LiveOrder) -> None:
        """Write how long the waiting jobs are expected to wait still, in Slurm's order and in the other one."""
        found = expected_savings(look, slurms, queue, order)
        told = None if found is None else (found.jobs, round(found.slurm_s), round(found.ordered_s))
        if told is not None and told != self._savings:
            jobs, slurm_s, ordered_s = told
            self.journal.write("expected", look.now_s, waiting=jobs, slurm_wait_s=slurm_s, ordered_wait_s=ordered_s)
        self._savings = told

    def _tell_left(self, look: Look, left: Mapping[str, str]) -> None:
        for job, why in left.items():
            if self._told.get(job) != why:
                self._told[job] = why
                self.journal.write("left", look.now_s, job=job, why=why)

    def _place(self, look: Look) -> None:
        """Give the jobs that opted in the order that they are to have, by what is taken from their priorities."""
        queue = queue_of(look, self.order, self._may_place)
        self._tell_left(look, queue.left)
        nice = nice_of([job for job in queue.jobs if self._may_place(job)])
        told = {
            job: {"Nice": str(value), **({} if of.is_placed else {"AdminComment": self._as_placed(of)})}
            for job, (of, value) in nice.items()
        }
        if not told:
            return
        refused = self.slurm.update_each(told)
        for job, why in refused.items():
            # It may have started or ended meanwhile; what Slurm will not do otherwise it is not asked for again.
            if "already" not in why and "no longer" not in why:
                self._refused.add(job)
            self.journal.write("refused", look.now_s, job=job, what="placed", why=why)
        self.journal.write("placed", look.now_s, jobs=[job for job in told if job not in refused])

    def _may_place(self, job: SlurmJob) -> bool:
        return self.opted_in(job) and (job.together or job.id) not in self._refused and job.id not in self._refused

    def _is_free(self, job: SlurmJob) -> bool:
        return self.opted_in(job) and job.id not in self._refused and (self.mode is not Mode.PIN or job.is_marked)

    def _solved(self, look: Look, found: Plan, plan_s: float) -> Mapping[str, tuple[str, ...]]:
        if found.window is None:
            return {}
        window = found.window
        result, fault = self._solving.answer(window)
        chosen = {job: nodes for job, nodes in window.nodes(result.found()).items() if nodes}
        self.journal.write(
            "window", look.now_s, jobs=list(chosen),
            nodes={job: fold_hostlist(nodes) for job, nodes in chosen.items()}, starting=list(found.starting),
            waiting=len(found.order), greedy=window.greedy_objective, plan_s=round(plan_s, 6),
            solve_s=round(result.runtime_s, 6), gap=result.gap, instance=object_from_problem(window.problem),
            answer=object_from_result(window.problem, result), **({"cut": fault} if fault else {}),
        )  # fmt: skip
        return chosen

    def _judge(self, look: Look) -> None:
        # Of many starts at once some go without a verdict, or holds would end meanwhile.
        end = time.monotonic() + self.limits.period
        gone = look.gone_since(self._judged or look)
        self._judged = look
        for job in look.jobs:
            if not job.allocated or job.id in self._seen:
                continue
            self._seen.add(job.id)
            told: dict[str, object] = {}
            if job.id in self._pins:
                told["as_pinned"] = set(self._pins.pop(job.id)) == job.allocated.keys()
            is_judged = self.opted_in(job) and time.monotonic() < end
            window = started_alone(look, job, gone) if is_judged else None
            if window is not None:
                result, _ = self._solving.answer(window, "auto")
                told |= {
                    "chosen": window.greedy_objective,
                    "optimum": result.bound if result.status is not Status.OPTIMAL else result.objective,
                    "proved": result.status is Status.OPTIMAL,
                }
            nodes = fold_hostlist(job.allocated)
            self.journal.write("started", look.now_s, job=job.id, start_s=job.start_s, nodes=nodes, **told)
        # A job may have started and ended since the last look, or have been cancelled.
        for unseen in self._pins.keys() - {job.id for job in look.jobs}:
            del self._pins[unseen]
            self.journal.write("unseen", look.now_s, job=unseen)

    def _act(self, look: Look, chosen: Mapping[str, tuple[str, ...]]) -> None:
        later, kept = self._later(look.now_s), []
        waiting = _at_once(look, chosen)
        self._held = {job.id for job in waiting if job.is_marked and not job.is_pinned}
        end = time.monotonic() + self.limits.period
        # Those whose turn it is come first; of many new ones the last are held after the next look.
        for job in sorted(waiting, key=lambda job: job.id not in chosen):
            if job.is_pinned:
                self._end_pin(look, job, later)
            elif job.is_marked and not self._may_hold(job):
                self._do(look, "left alone", job, {**cleared(job), **FREE})
            elif job.id in chosen:
                self._pin(look, job, chosen[job.id])
            elif not self._is_mine(job) and time.monotonic() < end and self._may_hold(job):
                self._do(look, "held", job, self._as_held(job, later))
            # The clock may have been put back.
            elif job.is_marked and not self.limits.hold / 2 <= job.begin_s - look.now_s <= self.limits.hold:
                kept.append(job.id)
        if kept:
            self._hold_on(look, kept, later)

    def _hold_on(self, look: Look, jobs: Sequence[str], until: str) -> None:
        try:
            self.slurm.update(jobs, StartTime=until)
        except SlurmRefusedError as error:
            self.journal.write("refused", look.now_s, jobs=jobs, why=str(error))

    def _later(self, now_s: float) -> str:
        return f"{datetime.fromtimestamp(now_s + self.limits.hold, UTC):%Y-%m-%dT%H:%M:%S}"

    def _put_off(self) -> None:
        """Hold on what is held while Slurm cannot be looked at, for as long as a hold."""
        if self._held and time.monotonic() - self._looked_s <= self.limits.hold:
            with suppress(SlurmError):
                self.slurm.update(sorted(self._held), StartTime=self._later(time.time()))

    def _pin(self, look: Look, job: SlurmJob, nodes: Sequence[str]) -> None:
        values = pinned(job, nodes, self._mark(job), look.now_s)
        if self._do(look, "pinned", job, values, nodes=values["ReqNodeList"]):
            self._pins[job.id] = tuple(nodes)

    def _end_pin(self, look: Look, job: SlurmJob, later: str) -> None:
        gone = sorted(look.away.keys() & set(expand_hostlist(job.required)))
        # The clock may have been put back.
        since = look.now_s - job.mark["pinned"]
        if gone:
            self._do(look, "unpinned", job, {**cleared(job), **self._as_held(job, later)}, why=f"{gone[0]} is not up")
        elif not -self.limits.pin <= since <= self.limits.pin:
            # Slurm has a reason that is not known here, which the next pin would not change.
            self._refused.add(job.id)
            why = f"did not start within {self.limits.pin:g} s"
            self._do(look, "unpinned", job, {**cleared(job), **FREE}, why=why)

    def _mark(self, job: SlurmJob) -> str:
        return mark_of(job, self._begun_ms)

    def _as_placed(self, job: SlurmJob) -> str:
        return f"{MARK},by={self._begun_ms},nice={job.nice}"

    def _is_mine(self, job: SlurmJob) -> bool:
        # What a younger service has marked gets this one's mark, at which the younger one ends.
        return job.is_marked and job.mark.get("by", 0) <= self._begun_ms

    def _as_held(self, job: SlurmJob, until: str) -> dict[str, str]:
        return {"StartTime": until, "AdminComment": self._mark(job)}

    def _may_hold(self, job: SlurmJob) -> bool:
        asked = self.opted_in(job) and job.id not in self._refused and job.request is not None
        is_due = job.is_marked or job.begin_s <= time.time()
        return asked and is_due and job.reason in (*WAITING, TASK_LIMIT) and job.priority > 0

    def _do(self, look: Look, event: str, job: SlurmJob, values: Mapping[str, str], **told: str) -> bool:
        # Of a request that is not answered it is not known whether it was done.
        (self._held.add if event == "held" else self._held.discard)(job.id)
        try:
            self.slurm.update([job.id], **values)
        except SlurmRefusedError as error:
            self._held.discard(job.id)
            # It may have started or ended meanwhile; what Slurm will not do otherwise it is not asked for again.
            if "already" not in str(error) and "no longer" not in str(error):
                self._refused.add(job.id)
            self.journal.write("refused", look.now_s, job=job.id, what=event, why=str(error))
            return False
        self.journal.write(event, look.now_s, job=job.id, **told)
        return True

    def _tell_away(self, error: SlurmError | None) -> None:
        if self._is_away != (error is not None):
            self._is_away = error is not None
            event, told = ("back", {}) if error is None else ("away", {"why": str(error)})
            self.journal.write(event, time.time(), **told)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Let another process release all when this one ends, however it does."""
        if not self._acts:
            yield
            return
        environment = {**self.slurm.env, "PYTHONPATH": child_environment()["PYTHONPATH"]}
        watchdog = subprocess.Popen(
            module_command("allocopt", "live", "release", "--wait"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            if self._is_second:
                watchdog.kill()
            if watchdog.stdin is not None:
                watchdog.stdin.close()
            # Of a Slurm that is away it waits longer than holds last; meanwhile another service may begin.
            with suppress(subprocess.TimeoutExpired):
                watchdog.wait(self.limits.hold)


def release(slurm: Slurm) -> list[str]:
    """End all that is held, pinned and reserved on a cluster; return the ids of the jobs."""
    look = slurm.look()
    for one in look.closures:
        if one.name.startswith(RESERVATION):
            with suppress(SlurmRefusedError):
                slurm.end_reservation(one.name)
    marked = [job for job in look.jobs if job.is_marked and job.state == "PENDING"]
    placed = {job.together or job.id: job.own_nice for job in marked if job.is_placed}
    slurm.update_each({job: {"Nice": str(nice), "AdminComment": ""} for job, nice in placed.items()})
    released, marked = marked, [job for job in marked if not job.is_placed]
    held = list(dict.fromkeys(job.together or job.id for job in marked if not job.is_pinned))
    # They may have started or ended meanwhile.
    if held:
        with suppress(SlurmError):
            slurm.update(held, **FREE)
    for job in marked:
        if job.is_pinned:
            with suppress(SlurmError):
                slurm.update([job.id], **cleared(job), **FREE)
    return [job.id for job in released]


def leaving(slurm: Slurm) -> list[str]:
    """Return the ids of the jobs that were queued again here, and have not left their nodes yet."""
    return [job.id for job in slurm.look().jobs if job.state == "COMPLETING" and "requeued" in job.mark]


def _at_once(look: Look, chosen: Container[str]) -> list[SlurmJob]:
    """Return the jobs that wait; tasks of an array that are not chosen are one, whose id is that of all of them."""
    found: dict[str, SlurmJob] = {}
    for job in look.jobs:
        if job.state == "PENDING":
            found.setdefault(job.id if job.id in chosen else job.together or job.id, job)
    for ids in [one for one, job in found.items() if one == job.together]:
        left = (task for task in expand_hostlist(ids) if task not in chosen)
        found[ids] = replace(found[ids], id=fold_hostlist(left))
    return list(found.values())


@contextmanager
def _only_one(config: Mapping[str, str]) -> Iterator[None]:
    """Keep a second service of the same cluster and user on this machine off; others see each other's marks."""
    name, port = config.get("ClusterName", ""), config.get("SlurmctldPort", "")
    with only_service(f"{name}-{port}", f"looks after cluster {name}"):
        yield
