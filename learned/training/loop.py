"""The loop of every training: updates, checkpoints, learning curve, the same end whatever interrupted it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.interruption import interruption_held
from allocopt.training import TrainingProgress, TrainingRequest
from learned.training.checkpoint import NAME, damaged, read_checkpoint, write_checkpoint
from learned.training.curve import write_curve
from learned.training.workers import ALONE, Workers, any_of, is_leader

BETWEEN_CHECKPOINTS_S = 30.0
N_TIMES = 2
"""Columns of the learning curve before what an update measured: its number, and seconds."""


class Learner(Protocol):
    """What learns."""

    def update(self, share: float) -> dict[str, float]:
        """Make one update and return what it measured.

        Parameters
        ----------
        share
            Share of the training that is finished, 0 at the first update; schedules follow it.
        """

    def snapshot(self) -> dict[str, Any]:
        """Everything that later updates depend on, for a checkpoint; where several workers learn, of all of them."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""


def run_updates(
    learner: Learner,
    total: int,
    request: TrainingRequest,
    identity: dict[str, Any],
    workers: Workers = ALONE,
) -> Iterator[TrainingProgress]:
    """Make all updates that are left, yielding after each; the caller writes the weights at the end.

    Parameters
    ----------
    learner
        What learns.
    total
        Number of updates.
    request
        Folder, time limit, and whether to go on from a checkpoint.
    identity
        What must be the same for a checkpoint to be of this training.
    workers
        The processes that run this loop together, of which the first one writes files.

    Raises
    ------
    UsageError
        If the folder holds a training and this one does not go on with it, or the other way round; if another worker
        has died.
    BadFileError
        If the checkpoint cannot be read or written.
    KeyboardInterrupt
        If it is interrupted; what was done so far can be gone on from.
    """
    rows = _begin(learner, request, identity)
    started = saved = time.monotonic()
    before = rows[-1]["seconds"] if rows else 0.0
    if len(rows) == total:
        # A crash may have come between the last checkpoint and the weights, which the caller writes.
        yield TrainingProgress(total, total, {name: rows[-1][name] for name in list(rows[-1])[N_TIMES:]})
    while len(rows) < total:
        with interruption_held() as interrupted:
            measures = learner.update(len(rows) / total)
        now = time.monotonic()
        rows.append({"update": float(len(rows) + 1), "seconds": round(before + now - started, 3), **measures})
        # The first update shows that there is something to lose.
        is_due = now - saved >= BETWEEN_CHECKPOINTS_S or len(rows) == 1
        out_of_time, stops, is_due = any_of(workers, _is_late(request, now - started), interrupted(), is_due)
        if is_due or len(rows) == total or out_of_time or stops:
            _save(learner, rows, request.folder, identity, workers)
            saved = now
        if stops:
            raise KeyboardInterrupt(f"{request.folder}: --resume goes on from here")
        yield TrainingProgress(len(rows), total, measures)
        if out_of_time:
            return


def _is_late(request: TrainingRequest, seconds: float) -> bool:
    """Whether the time is over that was given."""
    return request.minutes is not None and seconds >= 60 * request.minutes


def _begin(learner: Learner, request: TrainingRequest, identity: dict[str, Any]) -> list[dict[str, float]]:
    """Restore the learner if asked to, and return the rows of the learning curve so far."""
    check_folder(request)
    if not request.resumes:
        return []
    state = read_checkpoint(request.folder, identity)
    try:
        learner.restore(state["learner"])
        rows: list[dict[str, float]] = list(state["rows"])
        # A checkpoint is written after an update.
        float(rows[-1]["seconds"])
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise damaged(request.folder / NAME) from None
    return rows


def check_folder(request: TrainingRequest) -> None:
    """Make the folder; worth calling before a training prepares what takes long.

    Raises
    ------
    UsageError
        If it holds a training and this one does not go on with it, or the other way round.
    BadFileError
        If nothing can be written to it.
    """
    folder = request.folder
    # Unlike `Path.exists` it takes a name that is too long for one that is not there.
    holds = os.path.exists(folder / NAME)
    if request.resumes and not holds:
        raise UsageError(f"{folder} holds no checkpoint to go on from")
    if holds and not request.resumes:
        raise UsageError(f"{folder} holds a training already; --resume goes on with it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise bad_file(folder, "is a file, must be a folder") from None
    except OSError as error:
        raise bad_file(folder, f"cannot be made: {os_fault(error)}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise bad_file(folder, "no permission to write into it")


def _save(
    learner: Learner, rows: list[dict[str, float]], folder: Path, identity: dict[str, Any], workers: Workers
) -> None:
    """Write checkpoint and learning curve."""
    snapshot = learner.snapshot()
    if not is_leader(workers):
        return
    write_checkpoint(folder, identity, {"learner": snapshot, "rows": rows})
    write_curve(folder, rows, "samples", "mean_return", str(identity.get("title", folder.name)))
