"""Questions about waiting jobs, for explanations: slow and plain."""

from allocopt.arrays import IntArray
from allocopt.simulator.view import View


def in_words(view: View, units: IntArray) -> str:
    """Write units of each resource with their names; of those after the first only what there is."""
    named = list(zip(units.tolist(), view.platform.resources, strict=True))
    shown = (named[0], *(pair for pair in named[1:] if pair[0]))
    return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in shown)


def seconds(time: float) -> str:
    """Write a time in full, as the schedule's files have it."""
    return f"{int(time) if float(time).is_integer() else time} s"
