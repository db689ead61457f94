"""Shows signatures as in the source: array types by their names, default factories as dots.

Protocols are not instantiated and get no signature.
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
    """Return a signature, or a return type, in its short form."""
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


def skip_aliases(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip the fields of named tuples, which the parameters of their class describe."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Shorten every signature, and skip members without a description of their own."""
    app.connect("autodoc-process-signature", shorten, priority=900)
    app.connect("autodoc-skip-member", skip_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
