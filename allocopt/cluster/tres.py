"""Parses lists of trackable resources (TRES) and generic resources (GRES), as Slurm writes them.

The forms are those of ``--gres``, ``--tres-per-task``, gres.conf(5), accounting, and what ``scontrol`` of 22.05 to
26.11 prints: ``gres/gpu:a100=2``, ``gres:gpu:2``, ``gpu:1g.5gb:7(S:0)``.
"""

import re
from typing import NamedTuple

from allocopt.files.faults import shown

MOST_GPUS = 10**9
"""Largest number of GPUs in an entry."""

# Slurm counts or measures these for every job, so they are not demands.
_ALWAYS = frozenset(("cpu", "mem", "node", "billing", "energy", "fs", "vmem", "pages", "ic", "gpumem", "gpuutil"))
_KINDS = frozenset(("license", "bb", "fs", "ic"))  # TRES with a name after a slash that are not generic resources
_NOTHING = frozenset(("", "(null)", "n/a", "none", "null", "nan", "undefined"))
_PART = re.compile(r"(?:[^,()]|\([^()]*\))+")
_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d+)?)([KMGTP]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


class Demands(NamedTuple):
    """GPUs with their numbers by type (empty for any type), and the sorted names of other demands."""

    gpus: tuple[tuple[str, float], ...] = ()
    others: tuple[str, ...] = ()


def demands_of(text: str) -> Demands:
    """Return the demands in a list of TRES or generic resources.

    Accepted forms are ``gres/gpu:a100=4,cpu=8``, and ``gpu:a100:4(S:0-1),shard:2`` with or without ``gres:`` or
    ``gres/`` before each. ``gres/gpu=4`` beside ``gres/gpu:a100=3`` is the number of all GPUs. Resources that Slurm
    counts for every job, such as ``billing``, and amounts of 0 are not demands. Raises `ValueError` for other texts.
    """
    if is_nothing(text):
        return Demands()
    gpus: dict[str, float] = {}
    every, others = 0.0, set()
    for part in _PART.findall(text):
        if not part.strip():
            continue
        name, kind, amount, is_total = _demand(part.strip(), text)
        if not amount or name in _ALWAYS:
            continue
        if name != "gpu":
            others.add(name)
        elif amount > MOST_GPUS:
            raise ValueError(f"has {shown(part)} in {shown(text)}, must be at most {MOST_GPUS} GPUs")
        elif kind or not is_total:
            gpus[kind] = gpus.get(kind, 0.0) + amount
        else:
            every += amount
    left = every - sum(gpus.values())
    if left > 0:
        gpus[""] = gpus.get("", 0.0) + left
    return Demands(tuple(gpus.items()), tuple(sorted(others)))


def _demand(part: str, text: str) -> tuple[str, str, float, bool]:
    # Return name, type and amount of one demand, and whether it is written as TRES (with an equals sign).
    bare = part.partition("(")[0]
    name, equals, written = bare.partition("=")
    words = re.split("[/:]", name)
    is_generic = words[0] == "gres"
    # ``no_consume``: jobs do not consume the resource (slurm.conf(5), Gres), such as ``lustre:no_consume:4G``.
    words = [word for word in words[is_generic:] if word.lower() != "no_consume"]
    if not equals and len(words) > 1 and _AMOUNT.fullmatch(words[-1]):
        written = words.pop()
    amount = _AMOUNT.fullmatch(written or "1")
    is_odd = len(words) > 2 or any(word.startswith("-") for word in words)
    if not (words and all(words) and amount) or (equals and not written) or is_odd:
        held = f"is {shown(text)}" if part == text else f"has {shown(part)} in {shown(text)}"
        raise ValueError(f"{held}, must be a list such as gres/gpu:a100=2 or gpu:a100:2")
    kind = ":".join(words[1:])
    if words[0] in _KINDS and not is_generic:
        name = words[0] if words[0] in _ALWAYS else f"{words[0]}/{kind}".rstrip("/")
        return name, "", float(amount[1]), bool(equals)
    if equals and not is_generic and words[0] not in _ALWAYS and words[0] != "gpu":
        # A TRES that is not a generic resource, for example one that the site has added.
        return f"TRES/{words[0]}", kind, float(amount[1]), True
    name = words[0] if words[0] == "gpu" or words[0] in _ALWAYS else f"gres/{words[0]}"
    return name, kind, float(amount[1]) * _FACTORS[amount[2].upper()], bool(equals)


def licenses_of(text: str) -> list[str]:
    """Return the demands in a list of licences such as ``matlab@server:2,ansys=1``, each as in ``license/ansys``."""
    if is_nothing(text):
        return []
    parts = (re.split("[:=]", part.strip(), maxsplit=1) for part in re.split("[,;|]", text) if part.strip())
    return [f"license/{name}" for name, *amount in parts if amount != ["0"]]


def reservation_of(text: str) -> list[str]:
    """Return the demand of a job for a reservation, given its name or number; empty if there is none."""
    return [] if is_nothing(text) or text.strip() == "0" else ["--reservation"]


def is_nothing(text: str) -> bool:
    """Return whether a text stands for no value, as Slurm or a program that reads its tables writes it."""
    return text.strip().lower() in _NOTHING


def amount_of(text: str, name: str) -> float:
    """Return the amount of a resource in a list, such as ``cpu``; 0 if it is missing."""
    parts = () if is_nothing(text) else _PART.findall(text)
    found = (_demand(part.strip(), text) for part in parts if part.strip())
    return sum(amount for of, _, amount, _ in found if of == name)
