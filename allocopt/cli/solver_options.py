"""Options of a solver, as text on the command line."""

import json
from collections.abc import Sequence
from typing import Any

from allocopt.errors import UsageError


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Turn ``NAME=VALUE`` texts into solver options; a value is JSON (a number, true, false) or else text."""
    options: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"option {text!r} must look like NAME=VALUE")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except (ValueError, RecursionError):
            # No JSON, or a number of too many digits, or lists too deep in one another.
            options[name.replace("-", "_")] = value
    return options
