"""Scales that several figures share: durations on a logarithmic axis, and time since the beginning."""

from typing import Any

from allocopt.report.html.palette import N_COLOURS

DURATIONS = (
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3_600.0, "1 h"),
    (21_600.0, "6 h"),
    (86_400.0, "1 d"),
    (604_800.0, "7 d"),
    (2_592_000.0, "30 d"),
    (31_536_000.0, "1 y"),
)
DOTTED = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (7, 1.5, 1.5, 1.5)))
MARKERS = "osD^vPpX"


def dash(index: int) -> Any:
    """Return the dashes of a line, so that lines differ in more than colour."""
    return DOTTED[(index + index // N_COLOURS) % len(DOTTED)]


def marker(index: int) -> str:
    """Return the shape of a point, so that points differ in more than colour."""
    return MARKERS[(index + index // N_COLOURS) % len(MARKERS)]


def durations_across(axes: Any, longest_s: float, is_narrow: bool) -> None:
    """Make the x axis logarithmic in seconds, from one second on, with the durations of clocks and calendars."""
    shown = [(seconds, name) for seconds, name in DURATIONS if seconds <= max(longest_s * 1.3, 60.0)]
    if is_narrow and len(shown) > 5:
        shown = shown[::2]
    axes.set_xscale("log")
    axes.set_xlim(1.0, max(longest_s * 1.1, 60.0))
    axes.set_xticks([seconds for seconds, _ in shown], [name for _, name in shown])
    axes.minorticks_off()


def per_cent_up(axes: Any) -> None:
    """Make the y axis one of shares in per cent."""
    axes.set_ylim(0.0, 1.02)
    axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
