"""Files of guests are read, and what is wrong in one is said."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.live.hosting.guests import Guest, read_guests

ONE = '[[guest]]\nname = "a"\ncommand = ["true"]\n'


def test_a_guest_without_more_keeps_one_core_busy(tmp_path: Path) -> None:
    path = tmp_path / "guests.toml"
    path.write_text(f'{ONE}[[guest]]\nname = "b"\ncommand = ["x", "y"]\napplication = "app"\ncores = 2\nbusy = 0.5\n')
    assert read_guests(path) == (
        Guest("a", ("true",), "a", output=Path("a.out")),
        Guest("b", ("x", "y"), "app", 2, 0.5, output=Path("b.out")),
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ONE + ONE, r"guest\[1\].name: 'a' is used twice, first by guest\[0\]"),
        ("", "guest"),
        ('[[guest]]\nname = "a"\n', "command"),
        (ONE + "cores = 0\n", "cores"),
        (ONE + "busy = 0.0\n", "busy"),
        (ONE + "speed = 1\n", "speed"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "guests.toml"
    path.write_text(text)
    with pytest.raises(BadFileError, match=fault):
        read_guests(path)
