"""HTML tables of problems, results, schedules, metrics and workloads in notebooks, without further packages."""

from collections.abc import Sequence
from html import escape

LABEL = "text-align:left;font-weight:normal;opacity:.7;padding:.1em 1.2em .1em 0"
VALUE = "text-align:right;font-variant-numeric:tabular-nums;padding:.1em 0"


def html_table(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a table of names and values under a title; None is a dash, floats have six significant digits."""
    rows = "".join(
        f'<tr><th scope="row" style="{LABEL}">{escape(name)}</th><td style="{VALUE}">{escape(_shown(value))}</td></tr>'
        for name, value in facts
    )
    caption = f'<caption style="text-align:left;font-weight:600">{escape(title)}</caption>'
    return f"<table>{caption}<tbody>{rows}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
