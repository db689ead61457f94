"""Reading of text files, plain or compressed, strict JSON and TOML."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import math
import re
import tomllib
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from allocopt.errors import MissingPackageError
from allocopt.files.faults import bad_file, memory_faults_named, os_fault, shown

LARGEST_FILE = 1_000_000_000
"""Largest size of a file, decompressed, in bytes; an endless file must not use up the memory."""
MOST_UNPACKED, LEAST_UNPACKED = 200, 50_000_000
"""Largest factor by which a compressed file may grow (traces grow tenfold), and a size in bytes always allowed."""
_LONGEST_INTEGER = 20  # Largest number of characters of an integer, with its sign; 64 bits need no more
_DEEPEST_NESTING = 64  # Depth of brackets at which the search for a fault reports that the nesting is too deep

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_COMPRESSIONS = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh"}
"""Suffixes of compressed files that can be read, and their first bytes."""
_NO_TEXT = {
    b"\x28\xb5\x2f\xfd": "is compressed by zstd, which is not supported; decompress it: zstd -d",
    b"\x04\x22\x4d\x18": "is compressed by lz4, which is not supported; decompress it: lz4 -d",
    b"PK\x03\x04": "is a zip archive, such as a workbook of Excel; unpack it, or save the table as .csv",
    b"\xd0\xcf\x11\xe0": "is a workbook of Excel; save the table as .csv",
    b"PAR1": "is a Parquet file; its name must end in .parquet",
    b"SQLite format 3": "is a database of SQLite; export the table as .csv",
    b"\x89HDF": "is an HDF5 file; export the table as .csv",
    b"%PDF": "is a PDF, must be a text file",
}
"""Messages for some kinds of files that are not text, by their first bytes."""
_TAR = slice(257, 262)  # place of the word ``ustar`` in a tar archive

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_CONSTANT = re.compile(r"-?(NaN|Infinity)")
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class _RefusedError(ValueError):
    """JSON that Python would read, but that is ambiguous or not exact, such as a key given twice."""


@memory_faults_named
def read_text(path: Path) -> str:
    """Read a whole text file in UTF-8 or UTF-16, decompressed if it is compressed by gzip, xz or bzip2."""
    data = read_bytes(path)
    if path.suffix in _COMPRESSIONS or data.startswith(tuple(_COMPRESSIONS.values())):
        data = decompressed(path, data)
    what = next((what for begin, what in _NO_TEXT.items() if data.startswith(begin)), None)
    if what is None and data[_TAR] == b"ustar":
        what = "is a tar archive; unpack it, and name one of its files"
    if what is not None:
        raise bad_file(path, what)
    # Files from Windows begin with a byte order mark.
    encoding = "utf-16" if data[:2] in _UTF_16 else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        fault = f"byte {data[error.start]:#04x} at offset {error.start} is not {name}, must be a text file"
        raise bad_file(path, fault) from None


def read_bytes(path: Path) -> bytes:
    """Read a whole file; raise `BadFileError` if it cannot be read, or is larger than `LARGEST_FILE`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise bad_file(path, os_fault(error)) from None
    except ValueError:
        raise bad_file(path, "is not a possible file name") from None
    if len(data) > LARGEST_FILE:
        raise bad_file(path, f"has more than {LARGEST_FILE} bytes; larger files are refused")
    return data


def most_unpacked(size: int) -> int:
    """Return the most bytes to which ``size`` compressed bytes may grow; a few kilobytes could hold gigabytes."""
    return min(LARGEST_FILE, max(LEAST_UNPACKED, MOST_UNPACKED * size))


def without_compression(name: str) -> str:
    """Return the name of a file without a suffix of compression, such as ``.gz``."""
    for ending in _COMPRESSIONS:
        name = name.removesuffix(ending)
    return name


def decompressed(where: Path | str, data: bytes) -> bytes:
    """Return decompressed data: by xz or bzip2 if the first bytes are those of such a file, otherwise by gzip.

    Raises `BadFileError` if that fails, or if the data grows beyond `most_unpacked`.
    """
    most = most_unpacked(len(data))
    try:
        with _stream(data) as stream:
            unpacked = stream.read(most + 1)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise bad_file(where, f"cannot be decompressed: {error}") from None
    if len(unpacked) > most:
        raise bad_file(where, f"has more than {most} bytes when it is decompressed; larger files are refused")
    return unpacked


def _stream(data: bytes) -> gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File:
    if data.startswith(_COMPRESSIONS[".xz"]):
        return lzma.LZMAFile(io.BytesIO(data))
    if data.startswith(_COMPRESSIONS[".bz2"]):
        return bz2.BZ2File(io.BytesIO(data))
    return gzip.GzipFile(fileobj=io.BytesIO(data))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their line ends, split as the csv module splits them."""
    # Other characters at which `str.splitlines` splits, such as U+2028 or a form feed, may be part of a name.
    return _LINE.findall(text)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise `BadFileError` if it cannot be read or is not TOML."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_file(path, f"is not TOML: {error}") from None


def read_yaml(path: Path) -> object:
    """Read a YAML file of one document; raises the same errors as `read_yaml_documents`."""
    documents = read_yaml_documents(path)
    if len(documents) > 1:
        raise bad_file(path, f"holds {len(documents)} YAML documents, must be one")
    return documents[0] if documents else None


def read_yaml_documents(path: Path) -> list[object]:
    """Read the documents of a YAML file, without empty ones.

    Raises `BadFileError` if it is not YAML, `MissingPackageError` if PyYAML is not installed.
    """
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise MissingPackageError.of("YAML files need", "pyyaml", extra="yaml") from None
    text = read_text(path)
    try:
        parsed: list[object] = list(yaml.safe_load_all(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise bad_file(path, place, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise bad_file(path, f"is not YAML: {str(error).splitlines()[0]}") from None
    return [one for one in parsed if one is not None]


def parse_json(text: str, where: Path | str, first_line: int = 1) -> object:
    """Return the value of a JSON text whose first line has the number ``first_line`` in its file.

    Raises `BadFileError` if it is not JSON, or has NaN, Infinity, a key given twice or a number that is too large.
    """
    if not text.strip():
        raise bad_file(where, "is empty, must hold JSON")
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse,
            parse_float=lambda digits: value if math.isfinite(value := float(digits)) else _refuse(digits),
            # Refuse a long integer before parsing its digits, which takes long.
            parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_INTEGER else _refuse(digits),
        )
    except json.JSONDecodeError as error:
        message = re.sub(r" (starting )?at$", "", error.msg)
        position, fault = error.pos, f"is not JSON: {message}"
    except (_RefusedError, RecursionError):
        position, fault = _first_refused(text)
    line = first_line + text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)
    raise bad_file(where, f"line {line}, column {column}", fault)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _RefusedError
    return made


def _refuse(text: str) -> NoReturn:
    raise _RefusedError(text)


def _first_refused(text: str) -> tuple[int, str]:
    """Return position and fault of the first part that `parse_json` refuses; the text before that part must be JSON."""
    open_keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        word, string, colon = token[0], token[1], token[2]
        if word in "{[":
            open_keys.append(set())
        elif word in "]}":
            del open_keys[-1:]
        elif colon and open_keys:
            key = json.loads(string)
            if key in open_keys[-1]:
                return token.start(), f"key {shown(key)} is given twice"
            open_keys[-1].add(key)
        # Match only the beginning of the token: what follows the refused part need not be JSON.
        elif constant := _CONSTANT.match(word):
            return token.start(), f"is {constant[0]}, which JSON does not have; must be a finite number or null"
        elif number := _NUMBER.match(word):
            digits = number[0].lstrip("-")
            is_long = digits.isdigit() and len(number[0]) > _LONGEST_INTEGER
            if is_long or math.isinf(float(number[0])):
                long, large = f"has an integer of {len(digits)} digits, must fit 64 bits", "which is too large"
                return token.start(), long if is_long else f"has the number {shown(number[0])}, {large}"
        if len(open_keys) > _DEEPEST_NESTING:
            return token.start(), "is nested too deeply"
    return 0, "is nested too deeply"
