"""Checkpoints: the whole state of a training in one file, written beside its place and renamed."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allocopt.errors import BadFileError, UsageError
from allocopt.files.writing import write_bytes

NAME = "checkpoint.pt"


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
        If there is none, or it is that of another training.
    BadFileError
        If it cannot be read.
    """
    path = folder / NAME
    if not path.exists():
        raise UsageError(f"{folder} holds no checkpoint to go on from")
    try:
        held = torch.load(path, weights_only=True)
        known, state = held["identity"], held["state"]
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise BadFileError(f"{path}: is no checkpoint of a training: {error}") from None
    for name, value in identity.items():
        if known.get(name) != value:
            raise UsageError(f"{path} is of a training with {name} {known.get(name)!r}, not {value!r}")
    restored: dict[str, Any] = _arrays(state)
    return restored


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
