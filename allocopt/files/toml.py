"""TOML files, and what is wrong with one in a line."""

import tomllib
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file
from allocopt.files.reading import read_text


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    BadFileError
        If it cannot be read or is not TOML.
    """
    return parse_toml(read_text(path), path)


def parse_toml(text: str, where: Path | str) -> dict[str, Any]:
    """Parse TOML.

    Raises
    ------
    BadFileError
        If it is none; it names the line.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise bad_file(where, f"is not TOML: {error}") from None
    except ValueError:
        # Python reads no integer of thousands of digits.
        raise bad_file(where, "has an integer of too many digits, must fit 64 bits") from None
