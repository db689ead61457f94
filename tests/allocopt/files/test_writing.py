"""Output files are whole or not there."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.files.reading import read_text
from allocopt.files.writing import compact_json, json_by_line, write_text


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_is_written_is_read_and_nothing_else_is_left(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "folder" / name
    write_text(path, "old\n")
    write_text(path, "é\r\nnew\n")
    assert read_text(path) == "é\r\nnew\n"
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_compressed_bytes_depend_on_the_text_alone(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json.gz", "text")
    write_text(tmp_path / "b.json.gz", "text")
    first, second = (tmp_path / "a.json.gz").read_bytes(), (tmp_path / "b.json.gz").read_bytes()
    assert first == second
    assert first[4:8] == b"\0\0\0\0", "the header holds a time"
    assert gzip.decompress(first) == b"text"


def test_a_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(BadFileError, match="cannot be written"):
        write_text(path, "half \ud800")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "a.json"
    write_text(path, "old")
    child = os.fork()
    if child == 0:
        _write_under_a_limit(resource, path)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == BadFileError.exit_code
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def _write_under_a_limit(resource, path: Path) -> None:  # type: ignore[no-untyped-def]
    """In a child process: write more than files may hold, and leave with the exit code of the error."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        write_text(path, "x" * 100_000)
    except BadFileError as error:
        os._exit(error.exit_code)
    finally:
        os._exit(99)


def test_a_directory_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFileError) as caught:
        write_text(tmp_path, "text")
    assert str(caught.value) == f"{tmp_path}: cannot be written: Is a directory"
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(BadFileError, match=r"a/b\.json: cannot be written: "):
        write_text(tmp_path / "a" / "b.json", "text")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "file.json")
    write_text(tmp_path / "link.json", "text")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "file.json").read_text() == "text"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_text(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


@given(st.dictionaries(st.text(), st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.text())))
def test_json_by_line_is_json(value: dict[str, object]) -> None:
    assert json.loads(json_by_line(value)) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_json_that_does_not_exist_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact_json([number])


def test_what_is_overwritten_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    for mode in (0o600, 0o664):
        path.chmod(mode)
        write_text(path, f"{mode}")
        assert (path.read_text(), path.stat().st_mode & 0o777) == (f"{mode}", mode)


def test_a_pipe_that_the_shell_names_is_written_to() -> None:
    reader, writer = os.pipe()
    write_text(Path(f"/dev/fd/{writer}"), "text")
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        assert file.read() == "text"


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "pipe"])
def test_standard_output_is_written_to_where_it_stands(tmp_path: Path, is_file: bool) -> None:
    program = (
        "from pathlib import Path\nfrom allocopt.files.writing import write_text\n"
        "print('before')\nwrite_text(Path('/dev/stdout'), 'text\\n')\nprint('after')"
    )
    command = [sys.executable, "-c", program]
    if is_file:
        with (tmp_path / "out").open("w") as file:
            subprocess.run(command, stdout=file, check=True)
        found = (tmp_path / "out").read_text()
    else:
        found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert found == "before\ntext\nafter\n"
