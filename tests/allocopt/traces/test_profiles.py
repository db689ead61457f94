"""Tables of profiles."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.executables import Executable, read_profiles
from allocopt.traces.job_profile import Stage, StageKind

TABLE = """
[[application]]
executable = 7
name = "vasp"
stages = [{share = 0.25, memory = 0.1, kind = "sequential"}, {share = 0.75, cpu = 0.8, io = 0.2}]

[[application]]
executable = 8
name = "idle"
stages = [{share = 1, cpu = 0.01}]
"""


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    return path


def test_a_table_is_read(tmp_path: Path) -> None:
    assert read_profiles(table(tmp_path, TABLE)) == {
        7: Executable(
            "vasp", (Stage(0.25, 1.0, 0.1, kind=StageKind.SEQUENTIAL), Stage(0.75, 0.8, 0.0, 0.2, StageKind.PARALLEL))
        ),
        8: Executable("idle", (Stage(1.0, 0.01),)),
    }


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("executable = 8", "executable = 7", r"application\[1\].executable: is 7, which is given before"),
        ("share = 0.75", "share = 0.5", "profile of vasp: the shares sum to 0.75, must sum to 1"),
        ("cpu = 0.8", "cpu = 1.8", "application.*stages.*cpu"),
        ("cpu = 0.8", "gpu = 0.8", "gpu"),
        ('"sequential"', '"serial"', "serial"),
        ("[[application]]", "[[application", "is not TOML"),
        ('name = "vasp"', "", "name"),
    ],
)
def test_a_wrong_table_is_refused_by_its_place(tmp_path: Path, old: str, new: str, fault: str) -> None:
    with pytest.raises(BadFileError, match=f"profiles.toml: .*{fault}") as caught:
        read_profiles(table(tmp_path, TABLE.replace(old, new)))
    assert "\n" not in str(caught.value)
