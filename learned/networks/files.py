"""Weights in safetensors files: arrays by name, and what is to be known of them."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.files.faults import bad_file, shown
from allocopt.files.writing import write_bytes

Weights = Mapping[str, Float32Array]

FIELD = "allocopt"


@dataclass(frozen=True, slots=True)
class Card:
    """What a file of weights says of itself.

    Parameters
    ----------
    training
        Name of the training that made it.
    network
        Name of the architecture.
    seed
        The training's seed.
    updates
        Number of its updates.
    version, commit
        Of the program.
    command
        The command line that makes it again.
    settings
        All hyper-parameters by name.
    """

    training: str
    network: str
    seed: int
    updates: int
    version: str
    commit: str
    command: str
    settings: dict[str, Any]


def write_weights(path: Path, weights: Weights, card: Card) -> None:
    """Write weights beside their place and rename.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}
    write_bytes(path, save(arrays, {FIELD: json.dumps(asdict(card))}))


def read_weights(path: Path) -> tuple[dict[str, Float32Array], Card]:
    """Read weights and what is said of them.

    Raises
    ------
    BadFileError
        If the file cannot be read, was not written by `write_weights`, or holds what is no finite number.
    """
    from safetensors import SafetensorError, safe_open

    if os.path.isdir(path):
        raise bad_file(path, "is a directory, must be a file of weights")
    try:
        with safe_open(path, framework="numpy") as file:
            card = _card((file.metadata() or {}).get(FIELD))
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise bad_file(path, f"is no file of weights written by allocopt train: {error}") from None
    for name, array in arrays.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise bad_file(path, f"parameter {name!r} must hold finite 32-bit numbers")
    return arrays, card


def _card(text: str | None) -> Card:
    """Read the card; raises ValueError or TypeError where it is none."""
    if text is None:
        raise ValueError(f"its metadata have no field {FIELD!r}")
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"{FIELD!r} of its metadata is {shown(given)}, must be an object")
    known = {field.name for field in fields(Card)}
    missing = known - given.keys()
    if missing:
        raise ValueError(f"{FIELD!r} of its metadata has no {', '.join(sorted(missing))}")
    for name in ("training", "network"):
        if not isinstance(given[name], str):
            raise ValueError(f"{name} of its metadata is {shown(given[name])}, must be a name")
    return Card(**{name: value for name, value in given.items() if name in known})
