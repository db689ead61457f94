"""Numbers in words: durations, shares and counts as people read them."""

EN_DASH = "\u2013"
"""Stands between the ends of a range, and for what is not there."""
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
TIME_UNITS = ((259_200.0, 86_400.0, "days"), (10_800.0, 3_600.0, "hours"), (300.0, 60.0, "minutes"))


def duration(seconds: float) -> str:
    """Write a duration in one or two units: 3 h 12 min."""
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    for index, (size, name) in enumerate(UNITS):
        if seconds < size:
            continue
        below, small = UNITS[index + 1] if index + 1 < len(UNITS) else (1.0, "s")
        rest = round(seconds / below)
        whole, part = divmod(rest, round(size / below))
        return f"{whole:,} {name} {part} {small}" if part and whole < 100 else f"{whole:,} {name}"
    return f"{seconds:.0f} s"


def time_unit(span_s: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit in which a span of time is best drawn."""
    for least, seconds, name in TIME_UNITS:
        if span_s >= least:
            return seconds, name
    return 1.0, "seconds"


def percent(share: float, digits: int = 1) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """Write a number with four digits that count, large ones whole, huge ones with an exponent."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


def shortened(text: str, longest: int = 24) -> str:
    """Cut a text that is too long for its place, and replace what cannot be printed."""
    seen = printable(text)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


def printable(text: str) -> str:
    """Replace what cannot be printed, and no file of a figure may hold."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
