"""Reading text files, plain or compressed, and strict JSON."""

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, memory_faults_named, os_fault, shown

LARGEST_FILE = 1_000_000_000
"""Bytes, decompressed, above which a file is refused, so that an endless one does not exhaust the memory."""

MOST_UNPACKED, LEAST_UNPACKED = 200, 50_000_000
"""Times its size to which a compressed file may grow, and bytes to which any may: traces of jobs grow tenfold."""

LONGEST_INTEGER = 20
"""Characters of an integer, sign included, above which it is refused unread; 64 bits need no more."""

DEEPEST_NESTING = 64
"""Brackets inside brackets that are told apart when a file is nested too deeply to be read."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_CONSTANT = re.compile(r"-?(NaN|Infinity)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CUT_TOKEN = re.compile(r"-|\.|[eE][+-]?|t(ru?)?|f(a(ls?)?)?|n(ul?)?")
_WORDS = {
    "Expecting value": "a value is expected",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected",
    "Expecting ':' delimiter": "a colon is expected",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected",
    "Extra data": "there is more after the end of the value; only a .jsonl file holds several, one a line",
    "Invalid control character at": "a string is not closed on its line",
    "Invalid \\escape": "a backslash escape is unknown",
    "Invalid \\uXXXX escape": "a \\u escape needs four hexadecimal digits",
}


class _RefusedError(ValueError):
    """Well-formed JSON that Python would read, but that has no exact meaning."""


@memory_faults_named
def read_text(path: Path) -> str:
    """Read a whole text file in UTF-8; one whose name ends in ``.gz`` is decompressed.

    Raises
    ------
    BadFileError
        If there is no such file, it is a directory, may not be read, is damaged or too large, or is not text.
    """
    data = read_bytes(path)
    if path.suffix == ".gz":
        data = decompressed(path, data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = f"byte {data[error.start]:#04x} at offset {error.start} is not UTF-8, must be a text file"
        raise bad_file(path, fault) from None


def read_bytes(path: Path) -> bytes:
    """Read a whole file as it is on disk.

    Raises
    ------
    BadFileError
        If there is no such file, it is a directory, may not be read, or is larger than `LARGEST_FILE`.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise bad_file(path, os_fault(error)) from None
    except ValueError:
        raise bad_file(path, "is not a possible file name") from None
    if len(data) > LARGEST_FILE:
        raise bad_file(path, f"has more than {LARGEST_FILE} bytes, the largest file that is read")
    return data


def decompressed(where: Path | str, data: bytes) -> bytes:
    """Undo compression by gzip.

    Raises
    ------
    BadFileError
        If the data are damaged, or grow beyond `LARGEST_FILE` or to more than `MOST_UNPACKED` times their size.
    """
    most = min(LARGEST_FILE, max(LEAST_UNPACKED, MOST_UNPACKED * len(data)))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            unpacked = stream.read(most + 1)
    except EOFError:
        raise bad_file(where, "the compressed data end too early, the file is cut off") from None
    except gzip.BadGzipFile:
        raise bad_file(where, "is not compressed by gzip or is damaged, as its name ends in .gz it must be") from None
    except zlib.error:
        raise bad_file(where, "the compressed data are damaged") from None
    if len(unpacked) > most:
        raise bad_file(where, f"has more than {most} bytes when it is decompressed, the most that are read")
    return unpacked


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as csv takes them, with their ends.

    What else Python takes for the end of a line, such as U+2028 or a form feed, may stand in a name.
    """
    return _LINE.findall(text)


def parse_json(text: str, where: Path | str, first_line: int = 1) -> object:
    """Parse strict JSON: no NaN or Infinity, no key twice, no number beyond the range of a computer.

    Parameters
    ----------
    text
        One JSON value.
    where
        The file, for messages.
    first_line
        Line of the file on which the text starts.

    Raises
    ------
    BadFileError
        If it is not JSON; it names line and column.
    """
    if not text.strip():
        raise bad_file(where, "is empty, must hold JSON")
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_short_integer,
        )
    except json.JSONDecodeError as error:
        raise _fault_at(text, *_syntax_fault(text, error), where=where, first_line=first_line) from None
    except (_RefusedError, RecursionError):
        raise _fault_at(text, *_first_refused(text), where=where, first_line=first_line) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its pairs, refusing a key that is given twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _RefusedError
    return made


def _refuse_constant(constant: str) -> object:
    """Refuse NaN, Infinity and -Infinity, which JSON does not have."""
    raise _RefusedError(constant)


def _finite_float(text: str) -> float:
    """Read a number with a fraction or an exponent, refusing what would become infinite."""
    value = float(text)
    if math.isinf(value):
        raise _RefusedError(text)
    return value


def _short_integer(text: str) -> int:
    """Read an integer, refusing a long one before time is spent on its digits."""
    if len(text) > LONGEST_INTEGER:
        raise _RefusedError(text)
    return int(text)


def _syntax_fault(text: str, error: json.JSONDecodeError) -> tuple[int, str]:
    """Position and wording of a fault in the grammar."""
    rest = text[error.pos :].rstrip()
    escape_cut = error.msg.startswith("Invalid \\u") and '"' not in rest
    if not rest or _CUT_TOKEN.fullmatch(rest) or error.msg.startswith("Unterminated") or escape_cut:
        return len(text.rstrip()), "the text ends too early, it is cut off"
    return error.pos, f"is not JSON: {_WORDS.get(error.msg, error.msg)}, found {shown(rest[0])}"


def _first_refused(text: str) -> tuple[int, str]:
    """Position and wording of the first thing that `parse_json` refuses; up to there the grammar is right."""
    open_keys: list[set[str]] = []
    for token, following in _tokens(text):
        word = token.group()
        if word in "{[":
            open_keys.append(set())
        elif word in "]}":
            del open_keys[-1:]
        elif word.startswith('"') and following == ":" and open_keys:
            key = json.loads(word)
            if key in open_keys[-1]:
                return token.start(), f"key {shown(key)} is given twice"
            open_keys[-1].add(key)
        elif fault := _number_fault(word):
            return token.start(), fault
        if len(open_keys) > DEEPEST_NESTING:
            return token.start(), "is nested too deeply"
    return 0, "is nested too deeply"


def _tokens(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Every token of a JSON text with the text of the next one."""
    yield from ((token, following.group()) for token, following in pairwise(_TOKEN.finditer(text)))
    *_, last = _TOKEN.finditer(text)
    yield last, ""


def _number_fault(word: str) -> str | None:
    """Say why a number is refused; None if it is not."""
    # The grammar may break right behind the number; what comes first is told first.
    constant = _CONSTANT.match(word)
    if constant is not None:
        return f"is {constant.group()}, which JSON does not have; must be a finite number or null"
    number = _NUMBER.match(word)
    if number is None:
        return None
    if number.group().lstrip("-").isdigit() and len(number.group()) > LONGEST_INTEGER:
        return f"has an integer of {len(number.group().lstrip('-'))} digits, must fit 64 bits"
    if math.isinf(float(number.group())):
        return f"has the number {shown(number.group())}, which is too large"
    return None


def _fault_at(text: str, position: int, fault: str, where: Path | str, first_line: int) -> BadFileError:
    """Make the error of a fault at a position of the text."""
    line = first_line + text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)
    return bad_file(where, f"line {line}, column {column}", fault)
