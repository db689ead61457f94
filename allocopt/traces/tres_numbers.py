"""Numbered trackable resources, as in Slurm's database: ``1=80,2=340000,4=2,1001=4``."""

import re
from collections.abc import Iterable, Mapping, Sequence

from allocopt.traces.csv_columns import plain_name

# Numbers that are the same everywhere (slurmdb.h). A site's own numbers begin at 1001, which usually means GPUs.
_GPUS = "1001"
_NAMES = {"1": "cpu", "2": "mem", "3": "energy", "4": "node", "5": "billing", "6": "fs/disk", "7": "vmem", "8": "pages"}
_NUMBERED = re.compile(r"\d+=\d+(?:,\d+=\d+)*", re.ASCII)


def named_resources(
    header: Sequence[str], cells: Sequence[list[str]], tres: Mapping[str, str]
) -> Mapping[int, tuple[str, ...]]:
    """Replace numbers by names in a table's lists of resources, in place; return remarks by row.

    ``tres`` names the site's own numbers. The number 1001 means GPUs unless ``tres`` names it. Another
    number without a name is taken for a type of GPU if every job with an amount of it has at least the same amount of
    1001; otherwise it stays a number, and is an unknown resource.
    """
    columns = [number for number, name in enumerate(header) if plain_name(name) in ("tresalloc", "tresreq")]
    given = [number for number in columns if plain_name(header[number]) == "tresalloc"] or columns
    lists = [row[column].strip() for row in cells for column in given]
    if not columns or not any(_NUMBERED.fullmatch(row[column].strip()) for row in cells for column in columns):
        return {}
    names = {**_NAMES, _GPUS: "gres/gpu", **tres}
    types = _types([_amounts(text) for text in lists if _NUMBERED.fullmatch(text)], names)
    names.update({number: f"gres/gpu:{number}" for number in types})
    remarks: dict[int, tuple[str, ...]] = {}
    for row, row_cells in enumerate(cells):
        for column in columns:
            text = row_cells[column].strip()
            if _NUMBERED.fullmatch(text):
                amounts = _amounts(text)
                row_cells[column] = ",".join(f"{names.get(key, key)}={amount}" for key, amount in amounts.items())
                used = types & amounts.keys()
                if used:
                    remarks[row] = tuple(f"resource {key} taken for a type of GPU" for key in sorted(used))
    return remarks


def _amounts(text: str) -> dict[str, int]:
    return {key: int(amount) for key, amount in (part.split("=") for part in text.strip().split(","))}


def _types(lists: Iterable[Mapping[str, int]], names: Mapping[str, str]) -> frozenset[str]:
    # A number is a type of GPU if every job that has some of it has at least as many GPUs.
    beside: set[str] = set()
    alone: set[str] = set()
    for amounts in lists:
        for key in amounts.keys() - names.keys():
            (beside if amounts[key] <= amounts.get(_GPUS, -1) else alone).add(key)
    return frozenset(beside - alone)
