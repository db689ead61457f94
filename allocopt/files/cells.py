"""Cells of accounting records: times, durations and counts, as Slurm and others write them.

All functions raise `ValueError` if a cell is wrong; its message is the fault, without the place of the cell.
"""

import math
import re
from datetime import UTC, datetime

from allocopt.files.faults import shown

LARGEST = 2.0**53
"""Largest time, duration or count; up to it, floats represent all whole numbers."""

# Texts, in lower case, that mean no value or no limit.
_NOTHING = frozenset(
    (
        *("", "unknown", "none", "null", "(null)", "nan", "n/a", "na", "-", "invalid", "undefined"),
        *("unlimited", "infinite", "partition_limit"),
        # Written by pandas and MySQL.
        *("nat", "<na>", "\\n"),
    )
)

# Units of bare numbers, in seconds.
UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}

# Seconds since 1970 reach this value in the year 5138. A larger number is in milliseconds, microseconds or nanoseconds:
# the first of these units that gives fewer seconds than this value.
_MOST_EPOCH = 1e11
_PARTS = (1e3, 1e6, 1e9)
_LONG_NUMBER = re.compile(r"\d{12,}(?:\.\d+)?", re.ASCII)

# Values in Slurm's database for no time limit (INFINITE, NO_VAL of slurm.h) and no memory (NO_VAL64, ...).
_NO_LIMIT = frozenset(("4294967295", "4294967294"))
_NO_MEMORY = 2**64 - 2
# Slurm's database marks memory per core by this bit (MEM_PER_CPU).
_OF_CORE = 2**63

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+(?:\.\d+)?))?", re.ASCII)
# Python and pandas: ``1 day, 2:03:04`` and ``1 days 02:03:04.5``.
_DAYS = re.compile(r"(\d+) days?,? (\d+):(\d\d):(\d\d(?:\.\d+)?)", re.ASCII)
_MINUTES = re.compile(r"(\d+):(\d+(?:\.\d+)?)", re.ASCII)
# LSF: ``3600 second(s)``, and limits in minutes with the host to which they apply, ``60.0/hostA``.
_SECONDS = re.compile(r"(\d+(?:\.\d+)?) second\(s\)", re.ASCII)
_OF_HOST = re.compile(r"([\d.:]+) ?/.*", re.ASCII | re.DOTALL)
# LSF: ``Mar 18 00:01:15 2017``; a letter after it marks an estimated end.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LSF_DATE = re.compile(
    rf"({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d)(?::(\d\d))?(?: (\d{{4}}))?(?: [A-Z])?", re.ASCII
)
# ``2026/1/31 8:00`` is unambiguous; ``1/2/2026`` is not, and is refused.
_YEAR_FIRST = re.compile(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})(?:[ T](\d{1,2})(:\d\d(?::\d\d(?:\.\d+)?)?))?", re.ASCII)
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)", re.ASCII | re.IGNORECASE)
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d+)?)([KMGTP]?)(?:i?B)?([nc]?)", re.ASCII | re.IGNORECASE)
_MIB = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
_THOUSANDS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def instant_s(text: str, unit_s: float = 1.0) -> float:
    """Return the time that a number or a date states, in seconds since 1970; NaN for no value.

    A date without a zone is UTC. A number counts units of ``unit_s`` seconds. If the unit is a second, a number that is
    too large, such as 1700000000000, is read as milliseconds, microseconds or nanoseconds.
    """
    bare = _epoch_s(text) if unit_s == 1.0 and _LONG_NUMBER.fullmatch(text) else _bare_s(text, unit_s)
    if bare is not None:
        return bare
    try:
        moment = _lsf_date(text) or datetime.fromisoformat(_iso(text))
    except ValueError as error:
        reason = (
            str(error)
            if str(error).startswith("has no year")
            else "must be a date such as 2026-01-31T08:00:00 or a number"
        )
        raise ValueError(f"is {shown(text)}, {reason}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _epoch_s(text: str) -> float:
    value = float(text)
    seconds = next((value / part for part in (1.0, *_PARTS) if value / part < _MOST_EPOCH), value)
    return _in_range(text, seconds)


def _iso(text: str) -> str:
    # A date without a zone is UTC.
    text = text.removesuffix("UTC").removesuffix("GMT").rstrip()
    if (found := _YEAR_FIRST.fullmatch(text)) is None:
        return text
    year, month, day, hour, rest = found.groups()
    return f"{year}-{month:0>2}-{day:0>2} {hour or '':0>2}{rest or ':00'}"


def _lsf_date(text: str) -> datetime | None:
    found = _LSF_DATE.fullmatch(text)
    if found is None:
        return None
    month, *numbers, year = found.groups()
    if year is None:
        raise ValueError("has no year; set LSB_DISPLAY_YEAR=Y for bjobs, to get dates such as Mar 18 00:01:15 2017")
    day, hour, minute, second = (int(number or 0) for number in numbers)
    return datetime(int(year), 1 + _MONTHS.index(month), day, hour, minute, second)


def duration_s(text: str, unit_s: float = 1.0) -> float:
    """Return a duration in seconds, NaN for none.

    A plain number counts units of ``unit_s`` seconds. Slurm's forms are ``minutes:seconds``, ``hours:minutes:seconds``,
    ``days-hours``, ``days-hours:minutes`` and ``days-hours:minutes:seconds``; LSF's are ``3600 second(s)`` and
    ``60.0/host``; Python's is ``1 day, 2:03:04``.
    """
    if text in _NO_LIMIT:
        return math.nan
    if of_host := _OF_HOST.fullmatch(text):
        text = of_host[1]
    seconds = _SECONDS.fullmatch(text)
    bare = _bare_s(text, unit_s) if seconds is None else _in_range(text, float(seconds[1]))
    if bare is not None:
        return bare
    # Two numbers are minutes and seconds, but after a number of days they are hours and minutes.
    minutes = _MINUTES.fullmatch(text)
    if minutes is not None:
        return _in_range(text, 60.0 * float(minutes[1]) + float(minutes[2]))
    match = _DAYS.fullmatch(text) or _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"is {shown(text)}, must be a number or a duration such as 30:00 or 1-02:03:04")
    days, hours, minute, second = (float(part or 0) for part in match.groups())
    return _in_range(text, 86_400.0 * days + 3600.0 * hours + 60.0 * minute + second)


def resource_count(text: str, resource: str) -> float:
    """Return the count in a cell, a whole number such as ``16``, ``4.0`` or ``2K``; 0 for no value.

    In a list of Slurm such as ``cpu=72,mem=186G,node=2``, the count is the number after ``resource``.
    """
    if "=" in text:
        text = dict(part.split("=", 1) for part in text.split(",") if "=" in part).get(resource, "")
    if text.lower() in _NOTHING:
        return 0.0
    match = _COUNT.fullmatch(text)
    # A text that is not a number becomes 0.5, so that it is refused like any other fraction.
    value = float(match[1]) * _THOUSANDS[match[2].upper()] if match else 0.5
    if not value.is_integer() or value > LARGEST:
        raise ValueError(f"is {shown(text)}, must be a whole number such as 16 or 2K")
    return value


def resource_amount(text: str, resource: str, unit: float = 1.0) -> float:
    """Return an amount of a resource, a number times its unit; if the unit is not 1, the number may be a fraction."""
    if unit == 1.0 or not re.fullmatch(r"\d{1,15}\.\d+", text, re.ASCII):
        return resource_count(text, resource) * unit
    return float(text) * unit


def memory_mib(text: str, unit_mib: float = 1.0) -> tuple[float, str]:
    """Return memory in MiB, 0 for no value, and Slurm's mark: ``n`` for memory per node, ``c`` for per core, or empty.

    A number without a unit counts units of ``unit_mib`` MiB. In a list of Slurm such as ``cpu=72,mem=186G,node=2``, the
    memory is ``mem``. In Slurm's database, numbers from 2^63 on are memory per core.
    """
    if "=" in text:
        text = dict(part.split("=", 1) for part in text.split(",") if "=" in part).get("mem", "")
    if text.lower() in _NOTHING:
        return 0.0, ""
    if text.isascii() and text.isdigit() and len(text) in (19, 20) and _OF_CORE <= int(text) < 2 * _OF_CORE:
        return (0.0, "") if int(text) >= _NO_MEMORY - 1 else (float(int(text) - _OF_CORE), "c")
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"is {shown(text)}, must be memory such as 4000 or 16G")
    return float(match[1]) * _MIB.get(match[2].upper(), unit_mib), match[3].lower()


def _bare_s(text: str, unit_s: float) -> float | None:
    # Seconds of a plain number, NaN for no value; None for a text of another form.
    if text.lower() in _NOTHING:
        return math.nan
    try:
        value = float(text) * unit_s
    except ValueError:
        return None
    return _in_range(text, value) if math.isfinite(value) else None


def _in_range(text: str, value_s: float) -> float:
    if not abs(value_s) <= LARGEST:
        raise ValueError(f"is {shown(text)}, must be between -2^53 s and 2^53 s")
    return value_s
