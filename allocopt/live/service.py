"""The service beside a running Slurm: it looks at the cluster, plans, and, in some modes, pins jobs to nodes.

A hold ends automatically: the service sets the time at which a job may begin to some seconds ahead, and renews it as
long as it runs. A pin is recorded in the job's administrator's comment, so that a later service or
``allocopt live release`` finds and ends it.
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

# All in seconds.
CLUSTER_ANEW_S = 600.0  # after which nodes and partitions are read again
SOON_S = 0.1  # until the next look if something is about to change
STEPS_S = 0.5  # until the next look while jobs are relocated
LEAVING_S = 5.0  # for which looks are frequent because a job is leaving its nodes
AGAIN_S = 2.0  # after which a Slurm that did not answer is asked again
WAKE_S = 0.02  # between two checks of the wake file


class Mode(StrEnum):
    """How the service acts."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ORDER = "order"
    PIN = "pin"

    @property
    def acts(self) -> bool:
        """Whether the service changes jobs."""
        return self in (Mode.ORDER, Mode.PIN)


@dataclass(frozen=True, slots=True)
class OptIn:
    """Which jobs are managed: those of some partitions or qualities of service, or with a word in their comment."""

    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    comment: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether there is no condition, so that every job has opted in."""
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
        From one look to the next.
    solve
        Limit of the solver for each window.
    hold
        After which a held job may begin if the hold is not renewed. While Slurm does not answer, holds are
        still renewed for this long.
    pin
        After which a pin ends if the job has not started.
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
        """Seconds to wait for an answer of Slurm: few enough that no hold ends meanwhile."""
        return min(ANSWER_S, self.hold / 4)


@dataclass(slots=True)
class Service:
    """A service of one cluster.

    Parameters
    ----------
    slurm, journal
        The cluster, and the journal of what the service sees, decides and does.
    mode, opted_in
        How it acts, and on which jobs.
    solver, seed
        Solver of windows, by a name of `allocopt.get_solver`, and its seed.
    limits
        Times of the service.
    wake
        A file; when it changes, the next look is taken at once.
    order
        The order of the jobs that opted in, among themselves; None for Slurm's.
    relocator
        Makes room for waiting gangs by stopping or moving running jobs; None if no room is made.
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
        """Serve for some seconds, or until Ctrl-C; release all holds and pins at the end.

        Raises `SlurmError` if Slurm does not answer at the beginning, `SlurmDeniedError` if the user lacks the rights.
        """
        check_window_solver(self.solver)
        if self._acts and self.opted_in.is_all:
            acting = self.mode if self.mode.acts else "relocate requeue"
            raise UsageError(f"--{acting} changes only jobs that opted in: give --partition, --qos or --comment")
        cluster = self.slurm.cluster()
        for partition in self.opted_in.partitions:
            cluster.partition(partition)
        config = self.slurm.config()
        begun, self._begun_ms = time.monotonic(), time.time_ns() // 1_000_000
        with _only_one(config), self._watched(), self._solving:
            look = self.slurm.look()
            # Jobs that run already are not judged: their starts were not seen.
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
                        # The wake file may change before Slurm lists the job that is submitted.
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
        """Act on one look."""
        # Waiting jobs come first; judging those that have started is less urgent.
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
        # An array counts once, because its tasks appear one after another with the mark of the array.
        # Marks of running jobs count, too: these may be requeued.
        marks = {(job.id.partition("_")[0], job.admin_comment): job.mark.get("by", 0) for job in look.jobs}
        older = frozenset(mark for mark, by in marks.items() if 0 < by < self._begun_ms)
        # A service that was killed has left marks, but makes no new ones.
        if self._older is not None and older - self._older:
            # The other service also manages the jobs marked here: do not release them.
            self._is_second = True
            begun = datetime.fromtimestamp(min(marks[mark] for mark in older - self._older) / 1000, UTC)
            raise UsageError(
                f"another service, begun at {begun:%Y-%m-%dT%H:%M:%SZ} on another machine, manages jobs of this cluster"
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
        """Write how long the waiting jobs are still expected to wait, in Slurm's order and in the other one."""
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
        """Bring the jobs that opted in into their order by setting nice values."""
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
            # The job may have started or ended meanwhile. Any other refusal is final: do not ask again.
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
        # Stop judging after one period; otherwise holds would end meanwhile.
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
        # Handle the chosen jobs first. If many jobs are new, the last of them are held only after the next look.
        for job in sorted(waiting, key=lambda job: job.id not in chosen):
            if job.is_pinned:
                self._end_pin(look, job, later)
            elif job.is_marked and not self._may_hold(job):
                self._do(look, "left alone", job, {**cleared(job), **FREE})
            elif job.id in chosen:
                self._pin(look, job, chosen[job.id])
            elif not self._is_mine(job) and time.monotonic() < end and self._may_hold(job):
                self._do(look, "held", job, self._as_held(job, later))
            # The clock may have been set back.
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
        """Renew holds while Slurm does not answer, for as long as a hold lasts."""
        if self._held and time.monotonic() - self._looked_s <= self.limits.hold:
            with suppress(SlurmError):
                self.slurm.update(sorted(self._held), StartTime=self._later(time.time()))

    def _pin(self, look: Look, job: SlurmJob, nodes: Sequence[str]) -> None:
        values = pinned(job, nodes, self._mark(job), look.now_s)
        if self._do(look, "pinned", job, values, nodes=values["ReqNodeList"]):
            self._pins[job.id] = tuple(nodes)

    def _end_pin(self, look: Look, job: SlurmJob, later: str) -> None:
        gone = sorted(look.away.keys() & set(expand_hostlist(job.required)))
        # The clock may have been set back.
        since = look.now_s - job.mark["pinned"]
        if gone:
            self._do(
                look, "unpinned", job, {**cleared(job), **self._as_held(job, later)}, why=f"node {gone[0]} is not up"
            )
        elif not -self.limits.pin <= since <= self.limits.pin:
            # Slurm did not start it for a reason that is unknown here, and another pin would not help.
            self._refused.add(job.id)
            why = f"did not start within {self.limits.pin:g} s"
            self._do(look, "unpinned", job, {**cleared(job), **FREE}, why=why)

    def _mark(self, job: SlurmJob) -> str:
        return mark_of(job, self._begun_ms)

    def _as_placed(self, job: SlurmJob) -> str:
        return f"{MARK},by={self._begun_ms},nice={job.nice}"

    def _is_mine(self, job: SlurmJob) -> bool:
        # A job with the mark of a younger service gets the mark of this service, which makes the younger one end.
        return job.is_marked and job.mark.get("by", 0) <= self._begun_ms

    def _as_held(self, job: SlurmJob, until: str) -> dict[str, str]:
        return {"StartTime": until, "AdminComment": self._mark(job)}

    def _may_hold(self, job: SlurmJob) -> bool:
        asked = self.opted_in(job) and job.id not in self._refused and job.request is not None
        is_due = job.is_marked or job.begin_s <= time.time()
        return asked and is_due and job.reason in (*WAITING, TASK_LIMIT) and job.priority > 0

    def _do(self, look: Look, event: str, job: SlurmJob, values: Mapping[str, str], **told: str) -> bool:
        # An unanswered request may or may not have taken effect: assume that it has.
        (self._held.add if event == "held" else self._held.discard)(job.id)
        try:
            self.slurm.update([job.id], **values)
        except SlurmRefusedError as error:
            self._held.discard(job.id)
            # The job may have started or ended meanwhile. Any other refusal is final: do not ask again.
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
        """Start a watchdog that releases everything when this process ends, even if it is killed."""
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
            # While Slurm does not answer, the watchdog waits for longer than holds last. Do not wait for it as long, so
            # that another service may begin.
            with suppress(subprocess.TimeoutExpired):
                watchdog.wait(self.limits.hold)


def release(slurm: Slurm) -> list[str]:
    """End all holds, pins, orders and reservations of services on a cluster; return the ids of the jobs."""
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
    # Slurm refuses this for jobs that have started or ended meanwhile.
    if held:
        with suppress(SlurmError):
            slurm.update(held, **FREE)
    for job in marked:
        if job.is_pinned:
            with suppress(SlurmError):
                slurm.update([job.id], **cleared(job), **FREE)
    return [job.id for job in released]


def leaving(slurm: Slurm) -> list[str]:
    """Return the ids of the jobs that a service has requeued and that have not left their nodes yet."""
    return [job.id for job in slurm.look().jobs if job.state == "COMPLETING" and "requeued" in job.mark]


def _at_once(look: Look, chosen: Container[str]) -> list[SlurmJob]:
    """Return the waiting jobs; the tasks of an array that are not chosen are one job, whose id lists them all."""
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
    """Keep this user from running a second service of a cluster on this machine; others are noticed by their marks."""
    name, port = config.get("ClusterName", ""), config.get("SlurmctldPort", "")
    with only_service(f"{name}-{port}", f"manages cluster {name}"):
        yield
