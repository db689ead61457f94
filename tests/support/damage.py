"""Texts with a few characters missing, added or repeated."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from allocopt.errors import BadFileError

ODD = '=[],-|:\\"\n #.0159aNn\t\x00é<>{}'


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """Draw a text like this one, but not quite."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(1, 12))
        kind = draw(st.sampled_from(["cut", "add", "repeat", "end"]))
        if kind == "cut":
            text = text[:at] + text[at + length :]
        elif kind == "add":
            text = text[:at] + draw(st.text(ODD, min_size=1, max_size=2)) + text[at:]
        elif kind == "repeat":
            text = text[:at] + text[at : at + length] + text[at:]
        else:
            text = text[:at]
    return text


def check_read_or_refused(path: Path, count: Callable[[Path], int]) -> None:
    """Fail unless a file holds something, or is refused in one line that begins with its name."""
    try:
        assert count(path) > 0
        return
    except BadFileError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
