"""Signatures as they stand in the source: array types by their names, defaults that are made anew as dots.

Protocols are not made by calling them, and have none.
"""

import re
from typing import Any

from sphinx.application import Sphinx

ARRAYS = {
    "int64": "IntArray",
    "float64": "FloatArray",
    "uint64": "WordArray",
    "bool": "BoolArray",
    "float32": "Float32Array",
}
ARRAY = re.compile(
    rf"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[~numpy\.({'|'.join(ARRAYS)})_?\]\]"
)
MADE = re.compile(r"<factory>|mappingproxy\(\{\}\)")


def shortened(text: str | None) -> str | None:
    """Return a signature, or what it returns, as a reader would write it."""
    if text is None:
        return None
    named = ARRAY.sub(lambda found: f"~allocopt.arrays.{ARRAYS[found[1]]}", text)
    return MADE.sub("...", named)


def shorten(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten the signature of one documented object."""
    if getattr(obj, "_is_protocol", False):
        return "", returned
    return shortened(signature), shortened(returned)


def setup(app: Sphinx) -> dict[str, bool]:
    """Shorten every signature."""
    app.connect("autodoc-process-signature", shorten, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
