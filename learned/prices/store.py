"""Trained networks in memory: a file of weights is read once."""

import os
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from allocopt.errors import BadFileError
from learned.networks.files import read_weights
from learned.prices.network import SHAPES, Network, Weights, network_of

SHIPPED = "lns-prices"
"""Name of the weights that come with the package."""


def load_weights(name: str) -> Weights:
    """Return the shipped weights, or those of a file.

    Raises
    ------
    BadFileError
        If the file cannot be read, or holds another network.
    """
    if name == SHIPPED:
        return _shipped()
    path = Path(name)
    # Unlike `Path.exists` it takes a name that is too long for one that is not there.
    return _load(path, path.stat().st_mtime_ns if os.path.exists(path) else 0)


def load_network(name: str) -> Network:
    """Return `load_weights` as kernels are handed them."""
    if name == SHIPPED:
        return _shipped_network()
    network: Network = network_of(load_weights(name))
    return network


@lru_cache(maxsize=1)
def _shipped_network() -> Network:
    """Put the weights that come along in one place."""
    network: Network = network_of(_shipped())
    return network


@lru_cache(maxsize=1)
def _shipped() -> Weights:
    """Read the weights that come along."""
    with as_file(files("learned.weights").joinpath(f"{SHIPPED}.safetensors")) as path:
        return _load(path, 0)


@lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> Weights:
    """Read a file, once as long as it does not change."""
    arrays, _ = read_weights(path)
    for name, shape in SHAPES.items():
        if name not in arrays:
            raise BadFileError(f"{path}: has no array {name!r}, was not written by allocopt train lns-prices")
        if arrays[name].shape != shape:
            raise BadFileError(f"{path}: {name} has shape {arrays[name].shape}, must be {shape}: train it again")
    return Weights(*(np.ascontiguousarray(arrays[name]) for name in SHAPES))
