"""Fits the constants of execution models to measurements: contention, power and locality."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import least_squares

from allocopt.arrays import BoolArray, FloatArray
from allocopt.cluster.multicore import ContentionConstants, PowerConstants
from allocopt.errors import InvalidProblemError
from allocopt.simulator.locality import Line, Measured, Policy, WorkloadType
from allocopt.simulator.multicore.contention import speed_factor

Constants = TypeVar("Constants", covariant=True)

# Measurements needed for the six constants of contention, two for each; different numbers of GPUs needed for a line.
_FEWEST, _FEWEST_GPUS = 12, 2
_GB = 1000.0
# Bounds of b, c, da, db, dc, dd. Rates are in GB/s, so that the unknowns have similar magnitudes.
_LOWEST, _HIGHEST = (-1.0, 1e-3, -10.0, 0.0, 1e-1, 0.0), (-1e-4, 1e3, 10.0, 1e2, 1e3, 1e2)
# Initial values of db, dc and dd; several, because the error has many local minima.
_STEPS = ((3.5, 45.0, 3.0), (2.0, 50.0, 6.0), (1.0, 30.0, 0.5), (6.0, 90.0, 8.0), (0.5, 15.0, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Fit(Generic[Constants]):
    """Fitted constants, their predictions for each measurement, and the measured values, shape ``(m,)``."""

    constants: Constants
    predicted: FloatArray
    measured: FloatArray

    @property
    def residual(self) -> float:
        """Root mean square of measured minus predicted."""
        return float(np.sqrt(((self.measured - self.predicted) ** 2).mean()))

    @property
    def largest_residual(self) -> float:
        """Largest absolute residual."""
        return float(np.abs(self.measured - self.predicted).max())

    @property
    def explained(self) -> float | None:
        """Share of the variance that is explained; None if all measured values are equal."""
        spread = float(((self.measured - self.measured.mean()) ** 2).sum())
        return None if spread == 0 else 1.0 - float(((self.measured - self.predicted) ** 2).sum()) / spread


def fit_contention(
    rate: FloatArray, others_rate: FloatArray, others: FloatArray, factor: FloatArray, sharing: float = 1.0
) -> Fit[ContentionConstants]:
    """Fit the piecewise linear slowdown and its floor by nonlinear least squares, from several initial values.

    ``rate`` is the rate, in MB/s, at which a task accesses memory if it runs alone; ``others_rate`` is the sum for the
    other tasks on its processor. ``factor`` is the run time alone divided by the run time with the others. ``sharing``,
    as in `speed_factor`, is not fitted. Raises `InvalidProblemError` if the measurements do not determine the
    constants: there must be at least two for each constant, two different numbers of others, and some contention.
    """
    if len(factor) < _FEWEST:
        raise InvalidProblemError("contention", f"{len(factor)} measurements, must be at least {_FEWEST}")
    if len(np.unique(others)) < 2:
        raise InvalidProblemError("others", "must have at least two different values, because the floor depends on it")
    if (factor <= 0).any():
        raise InvalidProblemError("factor", "is not positive in a row, must be run time alone over run time together")
    slowed = factor < 0.99
    if not slowed.any():
        raise InvalidProblemError("factor", "is below 0.99 in no row: there is no contention to fit")

    def predicted(values: FloatArray) -> FloatArray:
        return speed_factor(rate, others_rate, others, _constants(values), sharing)

    def residuals(values: FloatArray) -> FloatArray:
        return predicted(values) - factor

    total = (rate + others_rate) / _GB
    knees = [float(total[slowed].min()), float(np.quantile(total[slowed], 0.25))]
    if (~slowed).any():
        knees.append(float(np.quantile(total[~slowed], 0.9)))
    fits = []
    for knee, slope, (db, dc, dd) in product(knees, (-0.01, -0.03), _STEPS):
        begin = np.clip(np.array([slope, knee, 1.75, db, dc, dd]), _LOWEST, _HIGHEST)
        scale = np.maximum(np.abs(begin), 1e-2)
        fits.append(least_squares(residuals, begin, bounds=(_LOWEST, _HIGHEST), x_scale=scale))
    best = np.asarray(min(fits, key=lambda fit: float(fit.cost)).x, dtype=np.float64)
    return Fit(_constants(best), predicted(best), factor)


def _constants(values: FloatArray) -> ContentionConstants:
    b, c, da, db, dc, dd = values.tolist()
    return ContentionConstants(b / _GB, c * _GB, da, db * _GB, dc * _GB, dd * _GB)


def fit_power(active: FloatArray, stalled_cores: FloatArray, power: FloatArray) -> Fit[PowerConstants]:
    """Fit a line to the power in watts of active processors, by linear least squares, and a mean to that of idle ones.

    ``stalled_cores`` is the sum of 1 - factor over the active cores, the equivalent number of cores that waited for
    memory; 0 if not measured. Raises `InvalidProblemError` if the measurements do not determine the constants, or power
    falls with the number of cores.
    """
    if (stalled_cores > active).any():
        raise InvalidProblemError("stalled_cores", "is above active_cores in a row, must be at most as large")
    on: BoolArray = np.asarray(active > 0)
    if len(np.unique(active[on])) < 2:
        raise InvalidProblemError("power", "must be measured with at least two different active_cores above 0")
    columns = [np.ones(int(on.sum())), active[on]]
    if stalled_cores[on].any():
        columns.append(stalled_cores[on])
    matrix = np.stack(columns, axis=1)
    if np.linalg.matrix_rank(matrix) < len(columns):
        raise InvalidProblemError("stalled_cores", "is a linear function of active_cores, must vary independently")
    found = np.linalg.lstsq(matrix, power[on], rcond=None)[0].tolist()
    processor_w, core_w, stall_w = (*found, 0.0)[:3]
    if core_w <= 0 or processor_w < 0:
        line = f"{core_w:.4g} W per active core and {processor_w:.4g} W"
        raise InvalidProblemError("power", f"the fitted line is {line}; must not fall or be negative")
    stalled, idle = min(1.0, max(0.0, 1.0 + stall_w / core_w)), power[~on]
    constants = PowerConstants(core_w, processor_w, float(idle.mean()) if idle.size else 0.0, stalled)
    busy = active - (1.0 - stalled) * stalled_cores
    return Fit(constants, np.where(on, processor_w + core_w * busy, constants.idle_w), power)


class _FittedLine(NamedTuple):
    """The penalties of a workload type and a policy as a line, in seconds."""

    workload: WorkloadType
    policy: Policy
    fit: Fit[Line]


def fit_locality(jobs: Sequence[Measured]) -> list[_FittedLine]:
    """Fit a line to the penalties of each type and policy; raise `InvalidProblemError` if measurements are missing."""
    fitted = []
    for workload, policy in product(WorkloadType, Policy):
        chosen = [job for job in jobs if job.workload == workload and job.policy == policy]
        if not chosen and workload is WorkloadType.UNKNOWN:
            continue
        gpus = np.array([job.gpus for job in chosen], dtype=np.int64)
        different = len(np.unique(gpus))
        if different < _FEWEST_GPUS:
            fault = f"measured with {different} numbers of GPUs, a line needs at least {_FEWEST_GPUS}"
            raise InvalidProblemError(f"{workload.label} jobs, {policy.label}", fault)
        penalty = np.array([job.service_s - job.requested_s for job in chosen])
        centred = gpus - gpus.mean()
        per_gpu = float(centred @ penalty / (centred @ centred))
        line = Line(float(penalty.mean() - per_gpu * gpus.mean()), per_gpu)
        fitted.append(_FittedLine(workload, policy, Fit(line, line.at(gpus), penalty)))
    return fitted
