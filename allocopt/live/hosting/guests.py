"""Files of guests, the programs that run on cores which running jobs leave idle.

A file is TOML with a table ``[[guest]]`` for each program::

    [[guest]]
    name = "blast-1"
    command = ["./blast", "-in", "a.fasta"]
    application = "blast"   # application that a policy learns about; default: the name
    cores = 1               # cores that it needs; default: 1
    busy = 0.8              # share of these cores that it needs; default: 1
    memory_mib = 500        # its peak of memory; default: 0
    limit_s = 3600          # longest run time that is expected without a host; default: 3600
    output = "blast-1.out"  # file for its output; default: NAME.out
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, printable_text, validated
from allocopt.files.reading import read_toml

_Text = Annotated[str, Field(min_length=1), AfterValidator(printable_text)]


class _Guest(FileModel):
    name: _Text
    command: Annotated[list[str], Field(min_length=1)]
    application: str = ""
    cores: Annotated[int, Field(ge=1)] = 1
    busy: Annotated[float, Field(gt=0, le=1)] = 1.0
    memory_mib: Annotated[float, Field(ge=0)] = 0.0
    limit_s: Annotated[float, Field(gt=0)] = 3600.0
    output: str = ""


class _Guests(FileModel):
    guest: Annotated[list[_Guest], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Guest:
    """A program that waits for cores."""

    name: str
    command: tuple[str, ...]
    application: str
    cores: int = 1  # that it needs
    busy: float = 1.0  # share of these cores that it needs, in (0, 1]
    memory_mib: float = 0.0  # that it occupies at most
    limit_s: float = 3600.0  # longest run time that is expected without a host
    output: Path = Path(os.devnull)  # file for its output


def read_guests(path: Path) -> tuple[Guest, ...]:
    """Read a file of guests. Raises `BadFileError` if it is invalid, or if two guests have the same name."""
    told = validated(_Guests, read_toml(path), path).guest
    names = [one.name for one in told]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise bad_file(path, f"guest[{at}].name", f"{name!r} is used twice, first by guest[{names.index(name)}]")
    return tuple(
        Guest(
            one.name,
            tuple(one.command),
            one.application or one.name,
            one.cores,
            one.busy,
            one.memory_mib,
            one.limit_s,
            Path(one.output or f"{one.name.replace('/', '_')}.out"),
        )
        for one in told
    )
