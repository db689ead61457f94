"""Files are read and written whole, or one line says what is wrong."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.files import reading
from allocopt.files.csv_rows import csv_rows, csv_text
from allocopt.files.faults import bad_file
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, json_by_line, write_text
from allocopt.report.html.results import ResultFile

NOBODY = 65534
SAMPLE = json.dumps({"name": "caf\u00e9 \U0001f600", "values": [1, -2.5e-3, True, False, None, {"a": []}]}, indent=1)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Put down the rights of the superuser, for whom every file is readable."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def fault_of(text: str) -> str:
    with pytest.raises(BadFileError) as caught:
        parse_json(text, "f.json")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.json: is empty, must hold JSON"),
        (" \n\n", "f.json: is empty, must hold JSON"),
        ("<xml/>", "f.json: line 1, column 1: is not JSON: Expecting value"),
        ('{\n "a": 1\n "b": 2}', "f.json: line 3, column 2: is not JSON: Expecting ',' delimiter"),
        ('{"a" 1}', "f.json: line 1, column 6: is not JSON: Expecting ':' delimiter"),
        ("{'a': 1}", "f.json: line 1, column 2: is not JSON: Expecting property name enclosed in double quotes"),
        ('{"a": 1}\n{"a": 2}', "f.json: line 2, column 1: is not JSON: Extra data"),
        ('["a\n"]', "f.json: line 1, column 4: is not JSON: Invalid control character"),
        (r'["\x"]', "f.json: line 1, column 3: is not JSON: Invalid \\escape"),
        (r'["\u12g4"]', "is not JSON: Invalid \\uXXXX escape"),
        ('{"a": [1,\n NaN]}', "f.json: line 2, column 2: is NaN, which JSON does not have"),
        ('{"NaN": -Infinity}', "f.json: line 1, column 9: is -Infinity, which JSON does not have"),
        ('["NaN", 1e999]', "f.json: line 1, column 9: has the number '1e999', which is too large"),
        ("[1, -" + "9" * 5000 + "]", "f.json: line 1, column 5: has an integer of 5000 digits, must fit 64 bits"),
        ('{"a": {"b": 1},\n "a": 2}', "f.json: line 2, column 2: key 'a' is given twice"),
        (r'[{"b": 1}, {"b": 1, "\u0062": 2}]', "f.json: line 1, column 21: key 'b' is given twice"),
        ("[" * 200_000, "f.json: line 1, column 65: is nested too deeply"),
        ('{"a":' * 200_000, "is nested too deeply"),
    ],
)
def test_bad_json_names_line_column_and_fault(text: str, expected: str) -> None:
    assert expected in fault_of(text)


@pytest.mark.parametrize("length", range(1, len(SAMPLE)))
def test_a_file_cut_anywhere_is_refused(length: int) -> None:
    assert re.match(r"f\.json: line \d+, column \d+: is not JSON: \w", fault_of(SAMPLE[:length]))


def test_lines_are_counted_from_the_line_the_text_starts_on() -> None:
    with pytest.raises(BadFileError, match=r"^f\.jsonl: line 7, column 2: "):
        parse_json("[x]", "f.jsonl", first_line=7)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_json_can_hold_is_read_as_python_reads_it(value: object) -> None:
    text = json.dumps(value)
    assert parse_json(text, "f.json") == json.loads(text)


@given(st.text(alphabet='{}[]:,"\\ue01-.NaInf \n') | st.text())
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_json(text, "f.json")
        said = "nothing"
    except BadFileError as error:
        said = str(error)
    assert len(said.splitlines()) == 1


def refused(path: Path) -> str:
    with pytest.raises(BadFileError) as caught:
        read_text(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_is_no_file_is_refused_in_one_printable_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert refused(path) == f"{path}: No such file or directory"
    assert refused(Path("a\0b.json")) == "a\\x00b.json: is not a possible file name"
    assert refused(tmp_path / "a\nb.json") == f"{tmp_path}/a\\nb.json: No such file or directory"
    path.write_text("{}")
    assert refused(path / "b.json") == f"{path}/b.json: Not a directory"
    path.chmod(0)
    with ordinary_user():
        assert refused(path) == f"{path}: Permission denied"
    path.unlink()
    path.mkdir()
    assert refused(path) == f"{path}: Is a directory"
    assert refused(path / "b.json") == f"{path}/b.json: No such file or directory"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_says_how_a_text_is_written(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("caf\u00e9\n".encode(encoding))
    assert read_text(path) == "caf\u00e9\n"
    path.write_bytes("a".encode("utf-16") + b"\0")
    assert refused(path) == f"{path}: byte 0x00 at offset 4 is not UTF-16, must be a text file"


def test_binary_data_name_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"ab\xff")
    assert refused(path) == f"{path}: byte 0xff at offset 2 is not UTF-8, must be a text file"


def test_damaged_compressed_files_say_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    whole = gzip.compress(b"0123456789abcdefghij" * 50)
    path.write_bytes(whole[:-5])
    assert "ended before" in refused(path)
    path.write_bytes(b'{"plain": 1}')
    assert "Not a gzipped file" in refused(path)
    path.write_bytes(whole[:12] + bytes([whole[12] ^ 0xFF, whole[13] ^ 0xFF]) + whole[14:])
    assert "cannot be decompressed" in refused(path)


def test_plain_and_compressed_text_read_the_same_with_or_without_byte_order_mark(tmp_path: Path) -> None:
    data = "é\r\n1\u2028".encode()
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + data)
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    assert read_text(tmp_path / "a.txt") == read_text(tmp_path / "a.gz") == "é\r\n1\u2028"


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.xz", "a.bz2"])
def test_text_is_decompressed_by_what_it_begins_with(
    tmp_path: Path, compress: Callable[[bytes], bytes], name: str
) -> None:
    whole = compress("1 é\n".encode() * 9)
    (tmp_path / name).write_bytes(whole)
    assert read_text(tmp_path / name) == "1 é\n" * 9
    (tmp_path / name).write_bytes(whole[:-3])
    assert "cannot be decompressed" in refused(tmp_path / name)


BINARIES = {
    b"\x28\xb5\x2f\xfd\x04": "is compressed by zstd, which is not supported; decompress it: zstd -d",
    b"PK\x03\x04\x14\x00": "is a zip archive, such as a workbook of Excel; unpack it, or save the table as .csv",
    b"PAR1\x15\x04": "is a Parquet file; its name must end in .parquet",
    b"SQLite format 3\x00": "is a database of SQLite; export the table as .csv",
    b"jobs.csv".ljust(257, b"\0") + b"ustar\0": "is a tar archive; unpack it, and name one of its files",
}


@pytest.mark.parametrize(("data", "fault"), BINARIES.items())
def test_a_file_that_is_no_text_is_named(tmp_path: Path, data: bytes, fault: str) -> None:
    for name, held in (("a.csv", data), ("a.csv.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(held)
        assert refused(tmp_path / name) == f"{tmp_path / name}: {fault}"


def test_endless_and_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_FILE", 10_000)
    assert refused(Path("/dev/zero")) == "/dev/zero: has more than 10000 bytes; larger files are refused"
    monkeypatch.setattr(reading, "LEAST_UNPACKED", 1000)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 8_000))
    assert len(read_text(path)) == 8_000
    path.write_bytes(gzip.compress(b" " * 10_000_000))
    assert refused(path) == f"{path}: has more than 10000 bytes when it is decompressed; larger files are refused"
    monkeypatch.setattr(reading, "LARGEST_FILE", 10_000_000)
    assert f"has more than {reading.MOST_UNPACKED * len(path.read_bytes())} bytes when it is decompressed" in refused(
        path
    )


def test_a_long_cell_is_shortened_in_the_middle_of_a_message() -> None:
    message = str(bad_file("f.csv", "line 1", f"job {'x' * 5000!r} is given twice"))
    assert len(message) < 600
    assert message.startswith("f.csv: line 1: job 'xxx")
    assert message.endswith("xxx' is given twice")


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_is_written_is_read_and_nothing_else_is_left(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "folder" / name
    write_text(path, "old\n")
    write_text(path, "é\r\nnew\n")
    assert read_text(path) == "é\r\nnew\n"
    assert [file.name for file in path.parent.iterdir()] == [name]
    write_text(tmp_path / f"another-{name}", "é\r\nnew\n")
    data = path.read_bytes()
    assert data == (tmp_path / f"another-{name}").read_bytes()
    assert name == "a.json" or data[4:8] == b"\0\0\0\0", "the header holds a time"


def test_a_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old")
    with pytest.raises(BadFileError, match="cannot be written"):
        write_text(path, "half \ud800")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_directory_or_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=rf"^{tmp_path}: cannot be written: Is a directory$"):
        write_text(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("x")
    with pytest.raises(BadFileError, match=r"a/b\.json: cannot be written: "):
        write_text(tmp_path / "a" / "b.json", "text")


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "file.json")
    write_text(tmp_path / "link.json", "text")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "file.json").read_text() == "text"
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


NAMES = st.text(st.sampled_from("=@+-'\t1a,\""), min_size=1, max_size=5)
FORMULAS = ["=1+1", "@SUM(A1)", "-x", "+x", "\tx", "=", "-", "-2+3", "'=x"]


@pytest.mark.parametrize("cell", [*FORMULAS, -1.5, -3, "-1.5", "+3", "-1e9", "a=b", "'x", "", None])
def test_a_text_that_looks_like_a_formula_alone_stands_behind_an_apostrophe(cell: object) -> None:
    written = list(csv.reader(io.StringIO(csv_text(["it", "more"], [[cell, 1]]))))[1][0]
    assert written == ("" if cell is None else f"'{cell}" if cell in FORMULAS else str(cell))


@given(NAMES)
@example("''=x")
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    header = ["instance", "kind", "strategy", "solver", "seed", "time_s", "objective", "bound"]
    path.write_text(csv_text(header, [[name, "topology", "free", "lns", 0, 1.0, -2.5, None]]), encoding="utf-8")
    ((_, row),) = csv_rows(path, header, "rows")
    (record,) = ResultFile.read(path).records
    assert (row["instance"], row["objective"]) == (name, "-2.5")
    assert record.values == row
