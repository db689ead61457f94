"""Weights by name: those that come with the package, and files that a training wrote."""

from importlib.resources import files
from pathlib import Path

from allocopt.arrays import Float32Array
from allocopt.errors import BadFileError, UsageError
from learned.networks.files import Card, read_weights

FOLDER, SUFFIX = "learned.weights", ".safetensors"


def shipped_weights(training: str) -> list[str]:
    """Names of the weights of a training that come with the package, such as machines; sorted."""
    names = [entry.name for entry in files(FOLDER).iterdir() if entry.name.endswith(SUFFIX)]
    stem = f"{training}-"
    return sorted(name.removeprefix(stem).removesuffix(SUFFIX) for name in names if name.startswith(stem))


def find_weights(training: str, weights: str) -> Path:
    """Return the file of weights.

    Parameters
    ----------
    training
        Name of the training, such as ``dras-ppo``.
    weights
        One of `shipped_weights`, or a file that the training wrote.

    Raises
    ------
    UsageError
        If there is no such file.
    """
    shipped = shipped_weights(training)
    path = Path(str(files(FOLDER).joinpath(f"{training}-{weights}{SUFFIX}"))) if weights in shipped else Path(weights)
    if not path.exists():
        known = f"must be one of {', '.join(shipped)} or a file that `allocopt train {training}` wrote"
        raise UsageError(f"policy {training!r} has no weights {weights!r}: {known}")
    return path


def read_weights_of(training: str, path: Path) -> tuple[dict[str, Float32Array], Card]:
    """Read the weights of a training.

    Raises
    ------
    BadFileError
        If the file cannot be read, or is of another training.
    """
    weights, card = read_weights(path)
    if card.training != training:
        raise BadFileError(f"{path}: holds weights of {card.training!r}, not of {training!r}")
    return weights, card
