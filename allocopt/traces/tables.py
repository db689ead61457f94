"""Tables of jobs in text: dumps of ``sacct`` and other commands, and CSV files, with the columns in any order."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, resource_count
from allocopt.files.faults import bad_file
from allocopt.files.reading import lines_of
from allocopt.traces.csv_columns import Column, Columns, known_names, plain_name
from allocopt.traces.jobs import ARRAY_PART, PLAIN_NUMBER
from allocopt.traces.records import Damage
from allocopt.traces.rows import STEP, Rows
from allocopt.traces.workload import Workload

# Delimiters of files whose cells may be quoted; Slurm does not quote, whatever the delimiter is.
_QUOTED = ",;\t"
_DELIMITERS = ",;|\t"
_NAMED_DELIMITER = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"\d+,\d+", re.ASCII)
_NUMBERS = frozenset("submit start end run estimate nodes processors gpus memory".split())
_LONGEST_BEGIN = 100_000  # characters that are searched for the names of columns
_LOOKED_AT = 50  # lines that are searched for a delimiter
_FEWEST_KNOWN = 3  # known names of columns that make a first line a header
# Columns of free text, in which Slurm does not escape delimiters; the most likely ones first.
_FREE = ("constraints", "jobname", "comment", "admincomment", "systemcomment", "workdir")


def read_table(path: Path, text: str, damage: Damage, columns: Columns | None = None) -> Workload:
    """Read the jobs of a table: a dump of ``sacct``, or a CSV file.

    A job's size is its number of nodes, or without such a column its number of processors. Its run time is the column
    of run times, or else end minus start; its estimate is the time limit, or else the run time. Steps are skipped; jobs
    that have not ended, or were never submitted or started, are dropped and counted. Columns of nodes, cores, memory,
    GPUs and partitions give the requests.

    Raises `BadFileError`, which names the line and the column, if a needed column is missing or no job is left.
    """
    columns = columns or Columns()
    lines = lines_of(text)
    begin = _comments(lines)
    if begin < len(lines):
        lines[begin] = lines[begin].removeprefix("#").lstrip(" ")
    if lines[begin:] and (named := _NAMED_DELIMITER.fullmatch(lines[begin])):
        # Spreadsheets write the delimiter into a line above the names.
        begin += 1
        columns = replace(columns, delimiter=columns.delimiter or named[1])
    if not lines[begin:]:
        raise bad_file(path, "is empty, must begin with the names of its columns")
    if _is_ruled(lines):
        # A table as ``sacct`` prints it without -p: the second line has dashes below the titles.
        rows = _rows_of_spans(path, lines, columns, rule=1, before=2)
    elif _is_framed(lines):
        # A table as ``mysql`` prints it: rules around the names, and bars around the cells.
        rows = _rows_of_spans(path, lines, columns, rule=0, before=3)
    else:
        rows = _rows_of_cells(path, lines[begin:], begin, columns, damage)
    if not rows.cells:
        raise bad_file(path, "holds no jobs")
    return rows.workload(damage)


def is_table(text: str) -> bool:
    """Return whether a text begins like a table: with column names, possibly with dashes below or around them."""
    lines = lines_of(text[:_LONGEST_BEGIN])
    lines = lines[_comments(lines) :][:2] or [""]
    if _is_ruled(lines) or _is_framed(lines) or _NAMED_DELIMITER.fullmatch(lines[0]):
        return True
    return "|" in lines[0] or _known(lines[0], _delimiter(lines[0])) >= _FEWEST_KNOWN


def _comments(lines: Sequence[str]) -> int:
    # How many comment lines come before the line of column names, which may also begin with a hash.
    return next((at for at, line in enumerate(lines) if not line.startswith("#") or _has_names(line)), 0)


def _has_names(line: str) -> bool:
    return _known(line, _delimiter(line)) >= _FEWEST_KNOWN


def _is_ruled(lines: Sequence[str]) -> bool:
    rule = lines[1].rstrip() if len(lines) > 1 else ""
    return "-" in rule and not rule.strip("- ")


def _is_framed(lines: Sequence[str]) -> bool:
    return len(lines) > 1 and lines[1].startswith("|") and re.fullmatch(r"\+-[-+]*\+\s*", lines[0]) is not None


def _rows_of_spans(path: Path, lines: Sequence[str], columns: Columns, *, rule: int, before: int) -> Rows:
    # Columns are as wide as the dashes of the ruling line. In a frame, only lines with a bar are rows.
    spans = [match.span() for match in re.finditer("-+", lines[rule])]
    mark = "|" if rule == 0 else ""
    texts = [[line[begin:end].strip() for begin, end in spans] for line in lines]
    numbers = [at for at, line in enumerate(lines, 1) if at > before and line.strip() and line.startswith(mark)]
    return Rows(path, texts[1 - rule], numbers, [texts[number - 1] for number in numbers], columns, before=before)


def _delimiter(line: str) -> str:
    # Any character may separate columns: choose the one that gives the most known names.
    line = line.strip("\r\n")
    usual = max(_DELIMITERS, key=line.count)
    if _known(line, usual) >= _FEWEST_KNOWN:
        return usual
    best = max(dict.fromkeys(line), key=partial(_known, line), default=usual)
    return best if _known(line, best) >= _FEWEST_KNOWN else usual


def _known(line: str, delimiter: str) -> int:
    return len(known_names() & {plain_name(name.strip("\"' \r\n")) for name in line.split(delimiter)})


def _even(lines: Sequence[str], cells: int, delimiter: str) -> int:
    # How many of the first lines a delimiter splits into ``cells`` cells; ``sacct -p`` adds a delimiter at the end.
    split = (line.strip("\r\n").split(delimiter) for line in lines[:_LOOKED_AT])
    return sum(len(one) == cells or (len(one) == cells + 1 and not one[-1]) for one in split)


def _rows_of_cells(path: Path, lines: list[str], begin: int, columns: Columns, damage: Damage) -> Rows:
    # ``begin`` lines of the file come before these.
    first = lines[0].strip("\r\n")
    delimiter = columns.delimiter or _delimiter(first)
    if columns.header and not columns.delimiter:
        delimiter = max(dict.fromkeys(first or ","), key=partial(_even, lines, len(columns.header)))
    if delimiter == " ":
        # Aligned columns have any number of spaces between them.
        lines = [re.sub(" +", " ", line.strip(" ")) for line in lines]
    quoting: Any = csv.QUOTE_MINIMAL if delimiter in _QUOTED else csv.QUOTE_NONE
    # If cells may be quoted, a blank may come before the quote.
    skips = quoting == csv.QUOTE_MINIMAL
    split = partial(csv.reader, delimiter=delimiter, quoting=quoting, skipinitialspace=skips)
    reader = split(lines)
    numbers: list[int] = []
    rows: list[list[str]] = []
    faults: list[BadFileError] = []
    try:
        header, has_line = _header(next(reader), columns)
        if not has_line:
            reader = split(lines)
        places = columns.find(path, header)
        for cells in reader:
            # Concatenated files of several months repeat the line of names.
            if not any(map(str.strip, cells)) or (has_line and cells[: len(header)] == header):
                continue
            while len(cells) > len(header) and not cells[-1].strip():
                cells.pop()
            if len(cells) > len(header) and quoting == csv.QUOTE_NONE:
                cells = _aligned(cells, header, places, delimiter)
            if len(cells) == len(header):
                numbers.append(begin + reader.line_num)
                rows.append(cells)
            else:
                named = f"line {begin + 1} names" if has_line else "--columns names"
                fault = f"has {len(cells)} cells, {named} {len(header)} columns"
                faults.append(bad_file(path, f"line {begin + reader.line_num}", fault))
    except csv.Error as error:
        raise bad_file(path, f"line {begin + reader.line_num}", f"is not a row of cells: {error}") from None
    damage.drop(len(faults), faults, left=len(rows))
    _write_decimal_points(rows, delimiter, [column.number for role, column in places.items() if role in _NUMBERS])
    return Rows(path, header, numbers, rows, columns, before=begin + int(has_line))


def _write_decimal_points(rows: Sequence[list[str]], delimiter: str, numbers: Sequence[int]) -> None:
    # If semicolons separate cells, a comma is a decimal comma.
    for cells in rows if delimiter == ";" else ():
        for number in numbers:
            if _DECIMAL_COMMA.fullmatch(cells[number].strip()):
                cells[number] = cells[number].replace(",", ".")


def _header(first: list[str], columns: Columns) -> tuple[list[str], bool]:
    # The names of the columns, and whether the first line has them.
    named = [plain_name(name) for name in columns.header]
    header = first if not named or [plain_name(name) for name in first][: len(named)] == named else list(columns.header)
    has_line = header is first
    while header and not header[-1].strip():
        # ``sacct -p`` ends every line with a delimiter, and some sites remove it from the rows.
        header.pop()
    return header, has_line


def _aligned(cells: list[str], header: list[str], places: Mapping[str, Column], delimiter: str) -> list[str]:
    # Join cells of a row that has too many because free text holds delimiters; return it unchanged if nothing fits.
    names = [plain_name(name) for name in header]
    free = [names.index(name) for name in _FREE if name in names]
    over = len(cells) - len(header)
    shares = [{column: over} for column in free]
    shares += [{one: most, two: over - most} for one, two in combinations(free, 2) for most in range(over - 1, 0, -1)]
    readers: dict[str, Callable[[str], float]] = {
        **dict.fromkeys(("submit", "start", "end"), instant_s),
        **dict.fromkeys(("run", "estimate"), duration_s),
        **dict.fromkeys(("nodes", "processors"), partial(resource_count, resource="node")),
        "job": _job_number,
    }
    for share in shares:
        rest = iter(cells)
        joined = [delimiter.join(next(rest) for _ in range(1 + share.get(column, 0))) for column in range(len(header))]
        try:
            for role in readers.keys() & places.keys():
                readers[role](joined[places[role].number].strip())
        except ValueError:
            continue
        # Elapsed and ElapsedRaw may be neighbours: reject a shift by one column.
        if not any(":" in cell for name, cell in zip(names, joined, strict=True) if name.endswith("raw")):
            return joined
    return cells


def _job_number(text: str) -> float:
    if not (PLAIN_NUMBER.fullmatch(text) or ARRAY_PART.fullmatch(text) or STEP.fullmatch(text)):
        raise ValueError("is not a job id")
    return 0.0
