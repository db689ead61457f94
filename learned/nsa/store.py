"""Trained NSA networks in memory: a file of weights is read once."""

from functools import lru_cache
from pathlib import Path

from allocopt.files.faults import bad_file, os_fault
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
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError as error:
        raise bad_file(path, f"cannot be read: {os_fault(error)}") from None
    return _load(path, changed_ns)


@lru_cache(maxsize=8)
def _load(path: Path, changed_ns: int) -> tuple[Architecture, PackedNetwork]:
    """Read a file, once as long as it does not change."""
    weights, card = read_weights(path)
    if card.network not in NETWORKS:
        raise bad_file(path, f"network is {card.network!r}, must be one of {', '.join(NETWORKS)}")
    architecture = NETWORKS[card.network]
    try:
        packed = pack(architecture, weights)
    except ValueError as error:
        raise bad_file(path, str(error)) from None
    return architecture, packed
