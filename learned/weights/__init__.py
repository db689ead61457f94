"""Weights: those shipped with the package, and files that trainings wrote, in the safetensors format."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from allocopt.arrays import Float32Array
from allocopt.errors import MissingPackageError, UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.models import first_fault
from allocopt.files.writing import write_bytes

T = TypeVar("T")
Weights = Mapping[str, Float32Array]
FIELD = "allocopt"
FOLDER, SUFFIX = Path(__file__).parent, ".safetensors"


@dataclass(frozen=True, slots=True)
class Card:
    """Card of a file of weights: describes its training, and how to repeat it."""

    training: str
    network: str  # Name of the architecture
    seed: int
    updates: int
    # Version and commit of the program
    version: str
    commit: str
    command: str  # The command line that repeats the training
    settings: dict[str, Any]  # All settings by name


def shipped_weights(training: str) -> list[str]:
    """Return the sorted names, such as machines, of the shipped weights of a training."""
    return sorted(path.stem.removeprefix(f"{training}-") for path in FOLDER.glob(f"{training}-*{SUFFIX}"))


def find_weights(training: str, weights: str) -> Path:
    """Return the file of the `shipped_weights` of this name, or else the path ``weights``.

    Raises `UsageError` if there is no such file.
    """
    shipped = shipped_weights(training)
    path = FOLDER / f"{training}-{weights}{SUFFIX}" if weights in shipped else Path(weights)
    if not path.exists():
        known = f"must be one of {', '.join(shipped)} or a file that `allocopt train {training}` wrote"
        raise UsageError(f"policy {training!r} has no weights {weights!r}: {known}")
    return path


def load_weights(path: Path, training: str, make: Callable[[dict[str, Float32Array], Card], T]) -> T:
    """Read a file and return the result of ``make``, which is cached as long as the file does not change.

    Raises `BadFileError` if the file cannot be read, is of another training, or if ``make`` raises ValueError, KeyError
    or TypeError.
    """
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise bad_file(path, f"cannot be read: {os_fault(error)}") from None
    made: T = _made_once(path, changed_ns, training, make)
    return made


@lru_cache(maxsize=32)
def _made_once(path: Path, changed_ns: int, training: str, make: Callable[[dict[str, Float32Array], Card], Any]) -> Any:
    weights, card = read_weights(path)
    if card.training != training:
        raise bad_file(path, f"holds weights of {card.training!r}, not of {training!r}")
    try:
        return make(weights, card)
    except KeyError as error:
        raise bad_file(path, f"has no {error}") from None
    except (ValueError, TypeError) as error:
        raise bad_file(path, str(error)) from None


def read_weights(path: Path) -> tuple[dict[str, Float32Array], Card]:
    """Read weights and their card.

    Raises `BadFileError` unless `write_weights` wrote the file, `MissingPackageError` if safetensors is not installed.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError:
        raise MissingPackageError.of("learned weights need", "safetensors") from None
    if os.path.isdir(path):
        raise bad_file(path, "is a directory, must be a file of weights")
    try:
        with safe_open(path, framework="numpy") as file:
            told = (file.metadata() or {}).get(FIELD)
            if told is None:
                raise ValueError(f"its metadata have no field {FIELD!r}")
            given = json.loads(told)
            try:
                card = TypeAdapter(Card).validate_python(given)
            except ValidationError as error:
                raise ValueError(f"{FIELD!r} of its metadata: {' '.join(first_fault(error, given))}") from None
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise bad_file(path, f"is not a file of weights written by allocopt train: {error}") from None
    for name, array in arrays.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise bad_file(path, f"parameter {name!r} must hold finite 32-bit numbers")
    return arrays, card


def write_weights(path: Path, weights: Weights, card: Card) -> None:
    """Write weights to a temporary file and rename it; raises `BadFileError` if the file cannot be written."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}
    write_bytes(path, save(arrays, {FIELD: json.dumps(asdict(card))}))


def check_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Weights) -> None:
    """Raise ValueError unless weights have these names and shapes."""
    missing = [name for name in shapes if name not in weights]
    if missing:
        raise ValueError(f"parameter {missing[0]!r} is missing")
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise ValueError(f"parameter {name!r} has shape {weights[name].shape}, must be {shape}")


def dense_layers(
    weights: Weights, inputs: Float32Array, activation: Callable[[Float32Array], Float32Array]
) -> Float32Array:
    """Apply the layers of `allocopt.learned.rl.networks.dense`, with activations between, to rows of inputs."""
    found = inputs @ weights["0.weight"].T + weights["0.bias"]
    place = 2
    while f"{place}.weight" in weights:
        found = activation(found) @ weights[f"{place}.weight"].T + weights[f"{place}.bias"]
        place += 2
    return np.asarray(found, dtype=np.float32)


def relu(values: Float32Array) -> Float32Array:
    """Return the values, with those below 0 replaced by 0."""
    return np.maximum(values, np.float32(0.0))
