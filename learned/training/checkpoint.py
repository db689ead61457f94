"""Checkpoints: the whole state of a training in one file, written beside its place and renamed."""

import io
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.writing import write_bytes

NAME = "checkpoint.pt"


NOT_TENSORS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError),
)
"""What archives and torch raise for bytes that hold something else."""


def write_checkpoint(folder: Path, identity: dict[str, Any], state: dict[str, Any]) -> None:
    """Write the state of a training.

    Parameters
    ----------
    folder
        Where to.
    identity
        What makes it this training and no other: numbers and texts.
    state
        Tensors, arrays, numbers, texts, and lists and dicts of these.
    """
    buffer = io.BytesIO()
    torch.save({"identity": identity, "state": _tensors(state)}, buffer)
    write_bytes(folder / NAME, buffer.getvalue())


def read_checkpoint(folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Read the state of a training; arrays come back as arrays.

    Raises
    ------
    UsageError
        If it is that of another training.
    BadFileError
        If it cannot be read, or is damaged.
    """
    path = folder / NAME
    held = _load(path)
    known, state = (held.get(part) if isinstance(held, dict) else None for part in ("identity", "state"))
    if not isinstance(known, dict) or not isinstance(state, dict):
        raise damaged(path)
    for name, value in identity.items():
        if known.get(name) != value:
            raise UsageError(f"{path} is of a training with {name} {known.get(name)!r}, not {value!r}")
    restored: dict[str, Any] = _arrays(state)
    return restored


def damaged(path: Path) -> BadFileError:
    """Make the error for a checkpoint that cannot be gone on from."""
    return bad_file(path, "is damaged, or no checkpoint of this training; begin anew in another folder")


def _load(path: Path) -> Any:
    """Read a file of tensors whose checksums are right."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise bad_file(path, f"cannot be read: {os_fault(error)}") from None
    try:
        # Torch does not look at the checksums.
        if zipfile.ZipFile(io.BytesIO(data)).testzip() is not None:
            raise damaged(path)
        return torch.load(io.BytesIO(data), weights_only=True)
    except NOT_TENSORS:
        raise damaged(path) from None


def _tensors(value: Any) -> Any:
    """Replace arrays by marked tensors: files of tensors can be read without running code."""
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value.copy())}
    if isinstance(value, dict):
        return {name: _tensors(item) for name, item in value.items()}
    return [_tensors(item) for item in value] if isinstance(value, list | tuple) else value


def _arrays(value: Any) -> Any:
    """Undo `_tensors`."""
    if isinstance(value, dict):
        if list(value) == ["array"]:
            return value["array"].numpy()
        return {name: _arrays(item) for name, item in value.items()}
    return [_arrays(item) for item in value] if isinstance(value, list) else value
