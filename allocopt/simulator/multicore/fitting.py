"""Fits the constants of the contention and the power model to measurements."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from allocopt.arrays import BoolArray, FloatArray
from allocopt.cluster.multicore import ContentionConstants, PowerConstants
from allocopt.errors import InvalidProblemError
from allocopt.simulator.multicore.contention import speed_factor

# Measurements that the six constants of contention need: two for each.
_FEWEST = 12
_GB = 1000.0
# Bounds of b, c, da, db, dc, dd; rates are in GB/s, so that the unknowns are not too different in size.
_LOWEST, _HIGHEST = (-1.0, 1e-3, -10.0, 0.0, 1e-1, 0.0), (-1e-4, 1e3, 10.0, 1e2, 1e3, 1e2)
# Values of db, dc and dd from which a fit begins: the error has many local minima.
_STEPS = ((3.5, 45.0, 3.0), (2.0, 50.0, 6.0), (1.0, 30.0, 0.5), (6.0, 90.0, 8.0), (0.5, 15.0, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Fitted constants, and how well they fit."""

    constants: ContentionConstants | PowerConstants
    # What they predict for each measurement, and what was measured, shape ``(m,)``.
    predicted: FloatArray
    measured: FloatArray

    @property
    def residuals(self) -> FloatArray:
        """Measured minus predicted, shape ``(m,)``."""
        return np.asarray(self.measured - self.predicted, dtype=np.float64)

    @property
    def residual(self) -> float:
        """Root of the mean square of the residuals."""
        return float(np.sqrt((self.residuals**2).mean()))

    @property
    def largest_residual(self) -> float:
        """The largest of the residuals, without its sign."""
        return float(np.abs(self.residuals).max())

    @property
    def explained(self) -> float | None:
        """Share of the variance that is explained; None where all measured values are equal."""
        spread = float(((self.measured - self.measured.mean()) ** 2).sum())
        return None if spread == 0 else 1.0 - float((self.residuals**2).sum()) / spread


@dataclass(frozen=True, slots=True, eq=False)
class Slowdowns:
    """Measured speed factors of tasks that shared memory channels; arrays of shape ``(m,)``."""

    # Rate in MB/s at which the task accesses memory when it runs alone, and the sum of these of the other tasks.
    rate: FloatArray
    others_rate: FloatArray
    # Number of the other tasks, and run time alone over run time together.
    others: FloatArray
    factor: FloatArray

    def fit(self, sharing: float = 1.0) -> Fit:
        """Fit the piecewise linear slowdown and its floor by nonlinear least squares, from several beginnings.

        It takes at least two measurements for each constant, with two different numbers of other tasks; ``sharing``, as
        in `speed_factor`, is not fitted. Raises `InvalidProblemError` if the measurements cannot tell the constants.
        """
        if len(self.factor) < _FEWEST:
            raise InvalidProblemError("contention", f"{len(self.factor)} measurements, must be at least {_FEWEST}")
        if len(np.unique(self.others)) < 2:
            raise InvalidProblemError(
                "others", "must take at least two values: constants say how the floor depends on it"
            )
        if (self.factor <= 0).any():
            raise InvalidProblemError("factor", "is 0 somewhere, must be positive: time alone over time together")
        if not (self.factor < 0.99).any():
            raise InvalidProblemError("factor", "is nowhere below 0.99: there is no contention to fit")

        def residuals(values: FloatArray) -> FloatArray:
            return _predicted(_constants(values), self, sharing) - self.factor

        fits = [
            least_squares(residuals, begin, bounds=(_LOWEST, _HIGHEST), x_scale=np.maximum(np.abs(begin), 1e-2))
            for begin in _beginnings(self)
        ]
        best = min(fits, key=lambda fit: float(fit.cost))
        constants = _constants(np.asarray(best.x, dtype=np.float64))
        return Fit(constants, _predicted(constants, self, sharing), self.factor)


@dataclass(frozen=True, slots=True, eq=False)
class Powers:
    """Measured power of a processor; arrays of shape ``(m,)``."""

    # Number of active cores.
    active: FloatArray
    # How many cores' worth of them waited for memory: the sum of 1 - factor; zeros where that was not measured.
    stalled_cores: FloatArray
    # In watts.
    power: FloatArray

    def fit(self) -> Fit:
        """Fit a line to the power of active processors, by linear least squares; idle power is the mean of idle ones.

        It takes measurements with at least two different numbers of active cores, 0 not counted. Raises
        `InvalidProblemError` if they cannot tell the constants, or the fitted power falls with active cores.
        """
        if (self.stalled_cores > self.active).any():
            raise InvalidProblemError("stalled_cores", "is somewhere above active_cores, must be at most as many")
        on: BoolArray = np.asarray(self.active > 0)
        if len(np.unique(self.active[on])) < 2:
            raise InvalidProblemError(
                "power", "must be measured with at least two numbers of active cores, 0 not counted"
            )
        columns = [np.ones(int(on.sum())), self.active[on]]
        if self.stalled_cores[on].any():
            columns.append(self.stalled_cores[on])
        matrix = np.stack(columns, axis=1)
        if np.linalg.matrix_rank(matrix) < len(columns):
            raise InvalidProblemError("stalled_cores", "follows from the number of active cores, must vary beside it")
        found = np.linalg.lstsq(matrix, self.power[on], rcond=None)[0].tolist()
        processor_w, core_w, stall_w = (*found, 0.0)[:3]
        if core_w <= 0 or processor_w < 0:
            line = f"{core_w:.4g} W per active core and {processor_w:.4g} W"
            raise InvalidProblemError("power", f"the fitted line is {line}; must not fall or be negative")
        stalled, idle = min(1.0, max(0.0, 1.0 + stall_w / core_w)), self.power[~on]
        constants = PowerConstants(core_w, processor_w, float(idle.mean()) if idle.size else 0.0, stalled)
        busy = self.active - (1.0 - constants.stalled) * self.stalled_cores
        predicted = np.where(self.active > 0, constants.processor_w + constants.core_w * busy, constants.idle_w)
        return Fit(constants, predicted, self.power)


def _beginnings(measured: Slowdowns) -> Iterator[FloatArray]:
    total = (measured.rate + measured.others_rate) / _GB
    slowed = measured.factor < 0.99
    knees = [float(total[slowed].min()), float(np.quantile(total[slowed], 0.25))]
    if (~slowed).any():
        knees.append(float(np.quantile(total[~slowed], 0.9)))
    for knee in knees:
        for slope in (-0.01, -0.03):
            for db, dc, dd in _STEPS:
                yield np.clip(np.array([slope, knee, 1.75, db, dc, dd]), _LOWEST, _HIGHEST)


def _constants(values: FloatArray) -> ContentionConstants:
    b, c, da, db, dc, dd = values.tolist()
    return ContentionConstants(b / _GB, c * _GB, da, db * _GB, dc * _GB, dd * _GB)


def _predicted(constants: ContentionConstants, measured: Slowdowns, sharing: float) -> FloatArray:
    return speed_factor(measured.rate, measured.others_rate, measured.others, constants, sharing)
