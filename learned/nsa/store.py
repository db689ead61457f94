"""Trained NSA networks in memory: a file of weights is read once."""

from functools import lru_cache
from pathlib import Path

from allocopt.errors import BadFileError
from learned.inference.packed import PackedNetwork, pack
from learned.networks.files import read_weights
from learned.networks.layers import Architecture
from learned.nsa.networks import NETWORKS


def load_network(path: Path) -> tuple[Architecture, PackedNetwork]:
    """Return architecture and packed weights of a file.

    Raises
    ------
    BadFileError
        If it cannot be read, or holds no network of the paper.
    """
    return _load(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=8)
def _load(path: Path, changed_ns: int) -> tuple[Architecture, PackedNetwork]:
    """Read a file, once as long as it does not change."""
    weights, card = read_weights(path)
    if card.network not in NETWORKS:
        raise BadFileError(f"{path}: network is {card.network!r}, must be one of {', '.join(NETWORKS)}")
    architecture = NETWORKS[card.network]
    try:
        packed = pack(architecture, weights)
    except ValueError as error:
        raise BadFileError(f"{path}: {error}") from None
    return architecture, packed
