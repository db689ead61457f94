"""The loop of every training: updates, checkpoints, a learning curve, and the same end whatever interrupted it.

A checkpoint is the whole state of a training in one file, written beside its place and renamed.
"""

import csv
import io
import pickle
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allocopt.errors import BadFileError, MissingPackageError, UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.writing import write_bytes, write_text
from allocopt.interruption import interruption_held
from allocopt.report.plot import Figure, smoothed
from allocopt.training import TrainingProgress, TrainingRequest
from learned.rl.workers import ALONE, Learner, Workers

NAME = "checkpoint.pt"
BETWEEN_CHECKPOINTS_S = 30.0
NOT_TENSORS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError),
)
"""What archives and torch raise for bytes that hold something else."""


def run_updates(
    learner: Learner, total: int, request: TrainingRequest, identity: dict[str, Any], workers: Workers = ALONE
) -> Iterator[TrainingProgress]:
    """Make all updates that are left, yielding after each; the caller writes the weights at the end.

    The identity is what must be the same for a checkpoint to be of this training. Of the workers that run this loop
    together, the first one writes files. Raises what `TrainingRequest.check_folder` and `_read_checkpoint` do,
    `UsageError` if another worker has died, and `KeyboardInterrupt` if it is interrupted, after which what was done can
    be gone on from.
    """
    request.check_folder(NAME)
    rows: list[dict[str, float]] = []
    if request.resumes:
        state = _read_checkpoint(request.folder, identity)
        try:
            learner.restore(state["learner"])
            rows = list(state["rows"])
            # A checkpoint is written after an update.
            float(rows[-1]["seconds"])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            raise _damaged(request.folder / NAME) from None
    started = saved = time.monotonic()
    before = rows[-1]["seconds"] if rows else 0.0
    if len(rows) == total:
        # A crash may have come between the last checkpoint and the weights, which the caller writes.
        measures = {name: value for name, value in rows[-1].items() if name not in ("update", "seconds")}
        yield TrainingProgress(total, total, measures)
    while len(rows) < total:
        with interruption_held() as interrupted:
            measures = learner.update(len(rows) / total)
        now = time.monotonic()
        rows.append({"update": float(len(rows) + 1), "seconds": round(before + now - started, 3), **measures})
        is_late = request.minutes is not None and now - started >= 60 * request.minutes
        # The first update shows that there is something to lose.
        is_due = now - saved >= BETWEEN_CHECKPOINTS_S or len(rows) == 1
        is_late, stops, is_due = workers.any_of(is_late, interrupted(), is_due)
        if is_due or len(rows) == total or is_late or stops:
            snapshot = learner.snapshot()
            if workers.is_leader:
                _write_checkpoint(request.folder, identity, {"learner": snapshot, "rows": rows})
                title = str(identity.get("title", request.folder.name))
                _write_curve(request.folder, rows, title)
            saved = now
        if stops:
            raise KeyboardInterrupt(f"{request.folder}: --resume goes on from here")
        yield TrainingProgress(len(rows), total, measures)
        if is_late:
            return


def _write_checkpoint(folder: Path, identity: dict[str, Any], state: dict[str, Any]) -> None:
    """Write the state of a training: tensors, arrays, numbers, texts, and lists and dicts of these."""
    buffer = io.BytesIO()
    torch.save({"identity": identity, "state": _tensors(state)}, buffer)
    write_bytes(folder / NAME, buffer.getvalue())


def _read_checkpoint(folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Read a state; raises `UsageError` if it is that of another training, `BadFileError` if it cannot be read."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise bad_file(path, f"cannot be read: {os_fault(error)}") from None
    try:
        # Torch does not look at the checksums.
        is_whole = zipfile.ZipFile(io.BytesIO(data)).testzip() is None
        held = torch.load(io.BytesIO(data), weights_only=True) if is_whole else None
    except NOT_TENSORS:
        raise _damaged(path) from None
    known, state = (held.get(part) if isinstance(held, dict) else None for part in ("identity", "state"))
    if not isinstance(known, dict) or not isinstance(state, dict):
        raise _damaged(path)
    for name, value in identity.items():
        if known.get(name) != value:
            raise UsageError(f"{path} is of a training with {name} {known.get(name)!r}, not {value!r}")
    restored: dict[str, Any] = _arrays(state)
    return restored


def _write_curve(folder: Path, rows: Sequence[Mapping[str, float]], title: str) -> None:
    """Write ``curve.csv`` with all columns, and, with `allocopt[plot]`, ``curve.svg`` with the smoothed returns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "curve.csv", text.getvalue())
    x, y = "samples", "mean_return"
    xs, ys = (np.array([row[name] for row in rows]) for name in (x, y))
    # A training goes on where nothing draws.
    with suppress(MissingPackageError):
        Figure.of_lines(title, x, y, {y: (xs, smoothed(ys, 0.02))}).write(folder / "curve.svg")


def _damaged(path: Path) -> BadFileError:
    return bad_file(path, "is damaged, or no checkpoint of this training; begin anew in another folder")


def _tensors(value: Any) -> Any:
    # Arrays become marked tensors: files of tensors can be read without running code.
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value.copy())}
    if isinstance(value, dict):
        return {name: _tensors(item) for name, item in value.items()}
    return [_tensors(item) for item in value] if isinstance(value, list | tuple) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["array"]:
            return value["array"].numpy()
        return {name: _arrays(item) for name, item in value.items()}
    return [_arrays(item) for item in value] if isinstance(value, list) else value
