"""Finished cells that are not of the grid any more, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocopt.experiments.cells import Grid, label_of
from allocopt.experiments.store import Store

WORDS = {"content": "its input has another content"}


def stale_keys(grid: Grid, store: Store) -> list[str]:
    """Keys of finished cells that the grid does not have."""
    current = {cell.key for cell in grid.cells}
    return [key for key in store.records if key not in current]


def stale_remark(grid: Grid, store: Store, keys: Sequence[str]) -> str:
    """Say how many there are, and of one of them what has changed."""
    identity = store.records[keys[0]]["cell"]
    label = label_of(identity)
    alike = next((cell.identity for cell in grid.cells if cell.label == label), None)
    why = "is not in the grid any more" if alike is None else _differences(identity, alike)
    count = f"{len(keys)} cell{'' if len(keys) == 1 else 's'} in {store.path} left out"
    return f"{count}, such as {label}: {why}; --drop-stale removes them"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name what differs between two cells that are called the same."""
    changed = [name for name in (*new, *old) if old.get(name) != new.get(name)]
    parts = (WORDS.get(name, f"{name} was {old.get(name)}, is {new.get(name)}") for name in dict.fromkeys(changed))
    return ", ".join(parts)
