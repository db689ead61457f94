"""The direction of a proximal bundle step: a quadratic program over the simplex, by pairs of weights."""

from numba import float64, int64

from allocopt.arrays import FloatArray
from allocopt.kernels.compiled import kernel


@kernel(int64(float64[:, ::1], float64[::1], float64, float64[::1], float64[::1], int64, float64, int64))
def balance_weights(
    gram: FloatArray,
    errors: FloatArray,
    radius: float,
    weights: FloatArray,
    slopes: FloatArray,
    n_cuts: int,
    tolerance: float,
    most_steps: int,
) -> int:
    """Minimize ``radius / 2 * w' gram w + errors' w`` over weights that are not negative and sum to 1.

    Every step moves weight from the cut of the steepest slope to that of the flattest, as far as it pays.

    Parameters
    ----------
    gram
        Scalar products of the cuts' gradients, at least ``(n_cuts, n_cuts)``.
    errors
        Linearization errors, not negative.
    radius
        Weight of the quadratic term.
    weights
        The start, and the answer.
    slopes
        Working space.
    n_cuts
        Number of cuts.
    tolerance
        Stop when two slopes differ by no more.
    most_steps
        Stop after so many steps.

    Returns
    -------
    int
        Number of steps.
    """
    for i in range(n_cuts):
        slope = errors[i]
        for j in range(n_cuts):
            slope += radius * gram[i, j] * weights[j]
        slopes[i] = slope
    for step in range(most_steps):
        giver, taker = -1, 0
        for i in range(n_cuts):
            if weights[i] > 0.0 and (giver < 0 or slopes[i] > slopes[giver]):
                giver = i
            if slopes[i] < slopes[taker]:
                taker = i
        gain = slopes[giver] - slopes[taker]
        if gain <= tolerance:
            return step
        curvature = radius * (gram[giver, giver] - 2.0 * gram[giver, taker] + gram[taker, taker])
        moved = weights[giver]
        if curvature > 0.0:
            moved = min(moved, gain / curvature)
        weights[taker] += moved
        weights[giver] = weights[giver] - moved if moved < weights[giver] else 0.0
        for i in range(n_cuts):
            slopes[i] += radius * moved * (gram[i, taker] - gram[i, giver])
    return most_steps
