"""Lists of trackable resources (TRES) as Slurm writes them: ``gres/gpu:a100=2``, ``gres:gpu:2``, ``gpu:1g.5gb:7(S:0)``.

The forms are those of ``--gres``, ``--tres-per-task``, gres.conf(5) and what ``scontrol`` of 22.05 to 26.11 prints.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from allocopt.files.faults import shown

GPU = "gpu"
ORDINARY = frozenset(("cpu", "mem", "node", "billing", "energy", "vmem", "pages"))
"""Resources of every job, which have keys of their own."""

MOST = 10**9
"""Largest count of an entry."""

_COUNT = re.compile(r"(-?\d{1,15})([KMGTP]?)", re.ASCII | re.IGNORECASE)
_POWERS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


@dataclass(frozen=True, slots=True)
class Tres:
    """One entry of a list: such as 2 of type ``a100`` of ``gpu``; the type is empty where any does."""

    name: str
    type: str
    count: int


def tres_list(text: str) -> Iterator[Tres]:
    """Yield the entries of a list; raise `ValueError` for one that has no name."""
    # Commas between brackets count devices, such as (IDX:0,2).
    for entry in re.split(r",(?![^(]*\))", text):
        plain = re.sub(r"\(.*?\)", "", entry).strip()
        if not plain or plain.upper() in ("(NULL)", "N/A", "NONE"):
            continue
        parts = [part for part in re.split(r"[:=]", re.sub(r"^gres[/:]", "", plain)) if part]
        count = 1
        if len(parts) > 1 and (match := _COUNT.fullmatch(parts[-1])):
            count = int(match[1]) * _POWERS[match[2].upper()]
            parts = parts[:-1]
        if not parts or len(parts) > 2 or not 0 <= count <= MOST:
            raise ValueError(f"is {shown(text)}, must be such as gpu:a100:4 or gres/gpu=4")
        yield Tres(parts[0], parts[1] if len(parts) == 2 else "", count)


def gpus_by_type(text: str) -> dict[str, int]:
    """Return how many GPUs a list has by type, an empty one where none is given.

    A list that counts GPUs in all and by type, as AllocTRES does, counts each of them once.
    """
    held: Counter[str] = Counter()
    for one in tres_list(text):
        if one.name == GPU:
            held[one.type] += one.count
    typed = held.total() - held[""]
    if typed and "gres/gpu=" in text and held[""] >= typed:
        held[""] -= typed
    return {kind: count for kind, count in held.items() if count}


def not_modelled(text: str) -> list[str]:
    """Return the names of what a list asks for beside GPUs and what every job has, such as ``gres/shard``."""
    found = []
    for one in tres_list(text):
        if one.count and one.name != GPU and one.name not in ORDINARY:
            found.append(one.name if "/" in one.name else f"gres/{one.name}")
    return list(dict.fromkeys(found))
