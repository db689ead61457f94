"""The loop of every training: updates, checkpoints, learning curve, the same end whatever interrupted it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from allocopt.errors import UsageError
from allocopt.training import TrainingProgress, TrainingRequest
from learned.training.checkpoint import NAME, read_checkpoint, write_checkpoint
from learned.training.curve import write_curve

BETWEEN_CHECKPOINTS_S = 30.0


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
        """Everything that later updates depend on, for a checkpoint."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""


def run_updates(
    learner: Learner, total: int, request: TrainingRequest, identity: dict[str, Any]
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

    Raises
    ------
    UsageError
        If the folder holds a training and this one does not go on with it, or the other way round.
    BadFileError
        If the checkpoint cannot be read or written.
    """
    rows = _begin(learner, request, identity)
    started = saved = time.monotonic()
    before = rows[-1]["seconds"] if rows else 0.0
    while len(rows) < total:
        measures = learner.update(len(rows) / total)
        now = time.monotonic()
        rows.append({"update": float(len(rows) + 1), "seconds": round(before + now - started, 3), **measures})
        out_of_time = request.minutes is not None and now - started >= 60 * request.minutes
        if now - saved >= BETWEEN_CHECKPOINTS_S or len(rows) == total or out_of_time:
            _save(learner, rows, request.folder, identity)
            saved = now
        yield TrainingProgress(len(rows), total, measures)
        if out_of_time:
            return


def _begin(learner: Learner, request: TrainingRequest, identity: dict[str, Any]) -> list[dict[str, float]]:
    """Restore the learner if asked to, and return the rows of the learning curve so far."""
    if not request.resumes:
        if (request.folder / NAME).exists():
            raise UsageError(f"{request.folder} holds a training already; --resume goes on with it")
        return []
    state = read_checkpoint(request.folder, identity)
    learner.restore(state["learner"])
    rows: list[dict[str, float]] = state["rows"]
    return rows


def _save(learner: Learner, rows: list[dict[str, float]], folder: Path, identity: dict[str, Any]) -> None:
    """Write checkpoint and learning curve."""
    write_checkpoint(folder, identity, {"learner": learner.snapshot(), "rows": rows})
    write_curve(folder, rows, "samples", "mean_return", str(identity.get("title", folder.name)))
