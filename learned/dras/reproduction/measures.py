"""What is measured of schedules: the five metrics of the Kiviat graphs, and boxes of waits."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.metrics import measure
from allocopt.simulator.schedule import Schedule

HOUR_S = 3600.0

KIVIAT = {"mean wait h": -1, "max wait h": -1, "mean response h": -1, "mean slowdown": -1, "utilization": 1}
"""Metrics of the Kiviat graphs in their order around the graph; -1 where less is better."""

Box = dict[str, float]
"""Least, quartiles, greatest and mean of some waits in hours, and their number."""


def metrics_of(schedule: Schedule) -> dict[str, float]:
    """Return the metrics of a schedule by name."""
    metrics = measure(schedule)
    jobs = metrics.jobs
    return {
        "mean wait h": jobs.wait_s.mean / HOUR_S,
        "max wait h": jobs.wait_s.maximum / HOUR_S,
        "mean response h": jobs.response_s.mean / HOUR_S,
        "mean slowdown": jobs.slowdown.mean,
        "mean bounded slowdown": jobs.bounded_slowdown.mean,
        "utilization": metrics.machine.utilization,
    }


def normalized(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Scale every metric of the Kiviat graphs to 1 for the best method and 0 for the worst.

    Parameters
    ----------
    values
        Metrics by method.
    """
    scaled: dict[str, dict[str, float]] = {method: {} for method in values}
    for metric, sign in KIVIAT.items():
        signed = {method: sign * known[metric] for method, known in values.items()}
        worst, best = min(signed.values()), max(signed.values())
        for method, value in signed.items():
            scaled[method][metric] = (value - worst) / (best - worst) if best > worst else 1.0
    return scaled


def kiviat_area(axes: Sequence[float]) -> float:
    """Area of a Kiviat graph as a share of that of a graph in which every metric is 1.

    The triangles between neighbouring axes r and s have the area ``r s sin(2 pi / n) / 2``.
    """
    return float(np.mean(np.array(axes) * np.roll(axes, -1)))


def ranks(areas: Mapping[str, float]) -> dict[str, int]:
    """Rank methods by area: 1 for the greatest, the same for equals."""
    return {method: 1 + sum(other > area for other in areas.values()) for method, area in areas.items()}


def box_of(wait_s: FloatArray) -> Box:
    """Describe some waits; only their number where there are none."""
    if not len(wait_s):
        return {"n": 0}
    hours = wait_s / HOUR_S
    least, lower, median, upper, most = np.quantile(hours, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {
        "n": len(hours), "min": least, "q1": lower, "median": median, "q3": upper, "max": most,
        "mean": float(hours.mean()),
    }  # fmt: skip
