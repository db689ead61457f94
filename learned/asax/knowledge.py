"""What ASAX has learned about applications: weights of the experts, kept from job to job and in a file.

The file is JSON: ``{"format": "allocopt-asax", "version": 1, "metrics": [..], "update": .., "horizon": ..,
"applications": {NAME: {"alpha": [..], "round_risk": [..], "past_risk": [..], "rounds": t, "mixture_risk": x,
"rate_sum": x}}}``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import check_header
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from learned.asax.weights import Update, Weights

FORMAT, VERSION = "allocopt-asax", 1
ARRAYS = ("alpha", "round_risk", "past_risk")
NUMBERS = ("mixture_risk", "rate_sum")
SUM_TOLERANCE = 1e-9


@dataclass
class Knowledge:
    """Weights by application.

    Parameters
    ----------
    metrics
        Metrics of the experts, in order.
    update, horizon
        Of the weights of every application; see `Weights`.
    """

    metrics: tuple[str, ...]
    update: Update = Update.CUMULATIVE
    horizon: int = 1000
    applications: dict[str, Weights] = field(init=False, default_factory=dict)

    def of(self, application: str) -> Weights:
        """Return the weights of an application, equal ones for one that has not been seen."""
        if application not in self.applications:
            self.applications[application] = Weights(len(self.metrics), self.update, self.horizon)
        return self.applications[application]

    def save(self, path: Path | str) -> None:
        """Write all that is known; written beside and renamed."""
        write_text(
            Path(path),
            json_by_line(
                {
                    "format": FORMAT,
                    "version": VERSION,
                    "metrics": list(self.metrics),
                    "update": str(self.update),
                    "horizon": self.horizon,
                    "applications": {name: _object(weights) for name, weights in sorted(self.applications.items())},
                }
            ),
        )


def load_knowledge(path: Path | str, metrics: tuple[str, ...]) -> Knowledge:
    """Read what was saved, for experts of these metrics.

    Raises
    ------
    BadFileError
        If the file is not in the format, or was learned by experts of other metrics.
    """
    path = Path(path)
    held = check_header(parse_json(read_text(path), path), path, FORMAT)
    if held.get("metrics") != list(metrics):
        raise bad_file(path, "metrics", f"are {held.get('metrics')}, the experts have {list(metrics)}")
    update, horizon, applications = held.get("update"), held.get("horizon"), held.get("applications")
    if not isinstance(update, str) or update not in list(Update):
        raise bad_file(path, "update", f"is {shown(update)}, must be one of {', '.join(Update)}")
    if type(horizon) is not int or horizon < 1:
        raise bad_file(path, "horizon", f"is {shown(horizon)}, must be a whole number from 1 on")
    if not isinstance(applications, dict):
        raise bad_file(path, "applications", f"is {shown(applications)}, must be an object")
    knowledge = Knowledge(metrics, Update(update), horizon)
    for name, one in applications.items():
        _fill(knowledge.of(name), one, f"applications.{name}", path)
    return knowledge


def _object(weights: Weights) -> dict[str, object]:
    """Turn weights into what stands in the file."""
    arrays = {name: [float(value) for value in getattr(weights, name)] for name in ARRAYS}
    numbers = {name: float(getattr(weights, name)) for name in NUMBERS}
    return {**arrays, "rounds": weights.rounds, **numbers}


def _fill(weights: Weights, held: Any, place: str, path: Path) -> None:
    """Set weights to what stands in the file, checked."""
    if not isinstance(held, Mapping) or set(held) != {*ARRAYS, *NUMBERS, "rounds"}:
        raise bad_file(path, place, f"must have the keys {', '.join((*ARRAYS, 'rounds', *NUMBERS))}")
    for name in ARRAYS:
        setattr(weights, name, _array(held[name], weights.n, f"{place}.{name}", path))
    if abs(float(weights.alpha.sum()) - 1) > SUM_TOLERANCE:
        raise bad_file(path, f"{place}.alpha", f"sums to {weights.alpha.sum():g}, must sum to 1")
    if type(held["rounds"]) is not int or held["rounds"] < 0:
        raise bad_file(path, f"{place}.rounds", f"is {shown(held['rounds'])}, must be a whole number from 0 on")
    weights.rounds = held["rounds"]
    weights.mixture_risk, weights.rate_sum = (
        float(_array([held[name]], 1, f"{place}.{name}", path)[0]) for name in NUMBERS
    )


def _array(held: Any, count: int, place: str, path: Path) -> FloatArray:
    """Return numbers from 0 on, checked."""
    good = isinstance(held, list) and len(held) == count
    if not good or not all(type(value) in (int, float) and 0 <= value < np.inf for value in held):
        raise bad_file(path, place, f"must hold {count} numbers from 0 on")
    return np.array(held, dtype=np.float64)
