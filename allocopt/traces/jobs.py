"""Jobs as a site's accounting records describe them, and the workload made of them."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_jobs import array_tasks
from allocopt.cluster.unserved import unmodelled
from allocopt.errors import AllocoptError, BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, printable
from allocopt.traces.records import Damage, runnable_jobs
from allocopt.traces.workload import NO_JOB, UNKNOWN_USER, Workload

RUN_USED = "no time limit, run time used"
NUMBERED = "task of an array without a number of its own, given a new number"
GIVEN_BEFORE = "id used by an earlier job, given a new number"
NOT_ENDED = "not ended"
NEVER_STARTED = "never started"
NO_RUN = "run time unknown"
NO_SUBMIT = "submit time unknown"
NO_NODE_LIST = "list of nodes not understood, left out"
EARLY = "start before submission, left out"
AFTER_UNKNOWN = "waits for a job that is not in the trace"

# States of jobs that wait or run, as Slurm, LSF and others write them; of a state of several words, the first.
_LIVE = frozenset(
    (
        "PENDING RUNNING SUSPENDED CONFIGURING STOPPED SIGNALING STAGE_OUT PD CF R S ST QUEUED WAITING "
        "HELD IDLE RUN PEND PSUSP USUSP SSUSP PROV"
    ).split()
)
# States of jobs that have ended for good, whether or not the time is known.
_ENDED = frozenset(
    (
        "COMPLETED COMPLETE FAILED CANCELLED TIMEOUT NODE_FAIL PREEMPTED OUT_OF_MEMORY DEADLINE BOOT_FAIL REVOKED "
        "DONE EXIT FINISHED KILLED PASS"
    ).split()
)
# States of a run after which the job waits or runs again.
_AGAIN = frozenset(
    ("REQUEUED", "RESIZING", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RQ", "RS", "RF", "RH", "SE")
)

# Three years in seconds. A later start must be a time since 1970; then a submission at 0 is unknown.
_LATEST_FROM_0 = 1e8

_ID_NUMBER = re.compile(r"-?\d{1,16}", re.ASCII)
PLAIN_NUMBER = re.compile(r"\d{1,16}", re.ASCII)
ARRAY_PART = re.compile(r"\d+(?:[_+]\S+|\[\S+\])", re.ASCII)


def has_ended(state: str, end_s: float | None, run_s: float) -> bool:
    """Return whether a run of a job has ended, from its state (empty if unknown), its end, and its run time.

    A run after which the job was requeued or resized has ended if its end is known; in a trace without ends, if its run
    time is positive. The end is NaN if the record has none, and None if the trace has no ends at all. The run time is
    NaN if it is unknown.
    """
    word = state.strip().split(" ")[0].rstrip("+").upper()
    if word in _LIVE:
        return False
    if word in _ENDED:
        return True
    if end_s is None:
        return word not in _AGAIN or run_s > 0
    return not math.isnan(end_s) or (run_s > 0 and word not in _AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A run of a job as a record states it: times in seconds, NaN if unknown.

    Parameters
    ----------
    place, number
        Place of the record for messages, such as ``line 7``; and its number among the records, counted from 1.
    job
        Id as in the trace.
    submit, start, run, estimate
        Submission and start since a common origin, run time, and time limit. A submission at 0 is unknown if the start
        counts from 1970.
    size
        Nodes or processors that the run occupied.
    is_over
        Whether it has ended.
    name
        Name of a job that has no id.
    component
        Id as a component of a heterogeneous job, such as ``7+0``, in addition to ``job``; empty if it is not one.
    user, account, node_list
        Name or number of the user; name of the account; hostlist of the nodes. Empty if unknown.
    request
        The job's request for nodes of a cluster, None if unknown.
    after
        Id or number of the job that must end before this one can be submitted; empty for none.
    asks_for
        Names of demands that no request can express; jobs with such demands are left out.
    left_out
        Another reason why the job cannot be part of a workload; empty if it can.
    jobs
        How many jobs the record stands for, such as the tasks of an array that have not started.
    remarks
        Reasons why parts of the record were repaired or ignored.
    """

    place: str
    number: int
    job: str
    submit: float
    size: float
    start: float = math.nan
    run: float = math.nan
    estimate: float = math.nan
    is_over: bool = True
    name: str = ""
    component: str = ""
    user: str = ""
    account: str = ""
    node_list: str = ""
    request: Request | None = None
    after: str = ""
    asks_for: tuple[str, ...] = ()
    left_out: str = ""
    jobs: int = 1
    remarks: tuple[str, ...] = ()

    def fate(self, ignored: Collection[str] = ()) -> str:
        """Return the reason why the record is left out of the workload; empty if it is kept.

        ``ignored`` are names of demands to ignore.
        """
        if not self.is_over:
            return NOT_ENDED
        if math.isnan(self.submit) or (self.submit <= 0 and self.start > _LATEST_FROM_0):
            return NO_SUBMIT
        if math.isnan(self.run):
            return NEVER_STARTED if math.isnan(self.start) else NO_RUN
        names = sorted(set(self.asks_for) - set(ignored))
        return self.left_out or (unmodelled(names) if names else "")


def workload_of(
    path: Path,
    records: Sequence[JobRecord],
    damage: Damage,
    *,
    skipped: Mapping[str, int] | None = None,
    machine: int | None = None,
    columns: Mapping[str, str] | None = None,
    ignored: Collection[str] = (),
    from_first: bool = True,
    no_limit: str = RUN_USED,
) -> Workload:
    """Return the workload of some records.

    A job whose id is not a number, or was used by an earlier run, gets a new number and keeps the id as its name.

    Parameters
    ----------
    path, damage
        The file, and the count of its damaged jobs.
    records
        The records of the file, in its order.
    skipped
        Records that were already left out, by reason.
    machine
        Size of the trace's own machine, None if unknown.
    columns
        Names of the columns ``job`` and ``submit`` for messages; a name with a leading dot is a key.
    ignored
        Names of demands to ignore.
    from_first
        Whether times count from the first submission, or are kept.
    no_limit
        Reason for which jobs count as repaired if their run time replaces a missing estimate.

    Raises `BadFileError` if no job is left.
    """
    dropped = Counter(skipped or {})
    kept: list[JobRecord] = []
    for record in records:
        if reason := record.fate(ignored):
            dropped[reason] += record.jobs
        else:
            kept.append(record)
    if not kept:
        reasons = "; ".join(f"{reason}: {jobs}" for reason, jobs in dropped.items()) or "the file holds no jobs"
        raise damage.first or bad_file(path, f"none of its {sum(dropped.values())} jobs can be run ({reasons})")
    names = columns or {}

    def error(row: int, place: str, fault: str) -> BadFileError:
        name = names.get(place, place)
        if name.startswith("."):
            return bad_file(path, f"{kept[row].place}{name}", fault)
        return bad_file(path, kept[row].place, f"{name} {fault}")

    submit, start, run, estimate, size = (
        np.array([getattr(record, name) for record in kept], dtype=np.float64)
        for name in ("submit", "start", "run", "estimate", "size")
    )
    estimate = np.nan_to_num(estimate)
    origin = float(submit.min()) if from_first else 0.0
    ids, job_names, numbered = _ids(kept, records)
    job_names = [record.component or name for record, name in zip(kept, job_names, strict=True)]
    lists, is_odd = _node_lists(kept)
    preceding, lost = _preceding(kept, ids)
    requests = np.empty(len(kept), dtype=np.object_)
    requests[:] = [record.request for record in kept]
    repairs = {no_limit: estimate <= 0, **numbered, NO_NODE_LIST: is_odd, AFTER_UNKNOWN: lost, EARLY: start < submit}
    for reason in dict.fromkeys(remark for record in kept for remark in record.remarks):
        repairs[reason] = np.array([reason in record.remarks for record in kept])
    users, user_names = _users(kept)
    has_order = bool((preceding != NO_JOB).any())
    made = runnable_jobs(
        path,
        error,
        damage,
        repairs,
        machine,
        ids=ids,
        submit=submit - origin,
        run=run,
        processors=np.ceil(size.round(6)).astype(np.int64),
        estimate=np.where(estimate > 0, estimate, run),
        users=users,
        user_names=np.array(user_names, dtype=np.object_),
        accounts=np.array([printable(record.account) for record in kept], dtype=np.object_),
        names=np.array(job_names, dtype=np.object_),
        requests=requests,
        preceding=preceding if has_order else None,
        think_s=np.zeros(len(kept)) if has_order else None,
        recorded_start=np.where(start >= submit, start, np.nan) - origin,
        recorded_nodes=np.array(lists, dtype=np.object_),
    )
    if from_first:
        made = made.subset(slice(None), float(made.submit.min()))
    return replace(made, dropped=(*dropped.items(), *made.dropped))


def tasks_listed(text: str) -> int:
    """Return how many array tasks a text such as ``[3-10%2]`` lists, 1 if it is not such a list."""
    try:
        return max(len(array_tasks(text)[0]), 1)
    except ValueError:
        return 1


def _users(records: Sequence[JobRecord]) -> tuple[IntArray, list[str]]:
    # A number for every user, and names for users that are not numbers.
    users = [record.user for record in records]
    if all(PLAIN_NUMBER.fullmatch(name) for name in users):
        return np.array([int(name) for name in users], dtype=np.int64), [""] * len(users)
    # Names of users are numbered in order of their first job.
    known = {name: number for number, name in enumerate(dict.fromkeys(filter(None, users)))}
    numbers = np.array([known.get(name, UNKNOWN_USER) for name in users], dtype=np.int64)
    return numbers, [printable(name) for name in users]


def _ids(records: Sequence[JobRecord], every: Sequence[JobRecord]) -> tuple[IntArray, list[str], dict[str, BoolArray]]:
    # A unique number for every job; names for jobs whose id is not a number; and why jobs got new numbers.
    jobs = [record.job for record in records]
    first = {job: row for row, job in reversed(list(enumerate(jobs)))}
    plain = [_is_number(job) for job in jobs]
    is_again = np.array([bool(job) and first[job] < row for row, job in enumerate(jobs)])
    owned = np.array(plain) & ~is_again
    ids = np.array([record.number for record in records], dtype=np.int64)
    if owned.any():
        ids[owned] = [int(jobs[row]) for row in np.flatnonzero(owned).tolist()]
        last = max(int(record.job) for record in every if _is_number(record.job))
        ids[~owned] = last + 1 + np.arange(int((~owned).sum()))
    parts = np.array([ARRAY_PART.fullmatch(job) is not None for job in jobs])
    numbered = {NUMBERED: ~owned & ~is_again & parts, GIVEN_BEFORE: is_again}
    return ids, ["" if owned[row] else printable(job or records[row].name) for row, job in enumerate(jobs)], numbered


def _is_number(job: str) -> bool:
    return _ID_NUMBER.fullmatch(job) is not None and abs(int(job)) <= LARGEST


def _node_lists(records: Sequence[JobRecord]) -> tuple[list[str], BoolArray]:
    # Slurm writes sentences such as ``None assigned``.
    lists = ["" if " " in record.node_list else record.node_list for record in records]
    right = dict.fromkeys(lists, True)
    for text in right:
        try:
            expand_hostlist(text)
        except AllocoptError:
            right[text] = False
    return [text if right[text] else "" for text in lists], np.array([not right[text] for text in lists])


def _preceding(records: Sequence[JobRecord], ids: IntArray) -> tuple[IntArray, BoolArray]:
    # The preceding job of each job, and whether it is missing from the trace.
    by_number = {str(record.number): number for record, number in zip(records, ids.tolist(), strict=True)}
    by_name = {record.job: number for record, number in zip(records, ids.tolist(), strict=True)}
    known = by_number | by_name
    known.pop("", None)
    preceding = np.array([known[record.after] if record.after in known else NO_JOB for record in records], np.int64)
    return preceding, np.array([bool(record.after) for record in records]) & (preceding == NO_JOB)
