"""Check of bounds outside the solvers: a bound is computed again from its certificate, in exact arithmetic."""

import math
import time
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from allocopt.errors import InvalidSolutionError, WrongAnswerError
from allocopt.kernels.ready import make_ready
from allocopt.problems.base import Problem
from allocopt.problems.certificate import Certificate, InvalidCertificateError, TooLargeToCheckError
from allocopt.problems.kind import get_kind
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status, sign_of

CHECK_SHARE, OPTIMAL_CHECK_S = 0.1, 0.002
"""Time that the check of a bound may take: this share of the solve, for an optimum at least these seconds."""
# Relative difference within which objective and bound count as equal, with a little more for rounding.
TOLERANCE = 1.001 * EQUAL_RELATIVE

S = TypeVar("S")


def certified(problem: Problem, result: Result[S], allowed_s: float) -> Result[S]:
    """Return a result with its bound checked, if the check is expected to take at most ``allowed_s`` seconds.

    If the check gives up, because it turns out to be too large, the result is returned unchanged. Raises
    `WrongAnswerError` if the certificate proves less than the stated bound.
    """
    certificate = result.certificate
    if certificate is None or result.bound is None:
        return result
    check_s = certificate.seconds(problem)
    if math.isinf(check_s) or check_s > allowed_s:
        return result
    make_ready(certificate.kernels())
    try:
        check_bound(problem, certificate, result.bound)
    except TooLargeToCheckError:
        return result
    except InvalidSolutionError as error:
        if isinstance(error, ProvesLessError) and error.missing <= certificate.rounding(problem):
            # The difference is due to rounded prices: the bound is not wrong, but not proved.
            return result
        raise WrongAnswerError(f"solver {result.solver!r} stated a wrong bound: {error}") from None
    return replace(result, is_certified=True)


class ProvesLessError(InvalidCertificateError):
    """A certificate that proves less than the stated bound; ``missing`` is the difference."""

    def __init__(self, message: str, missing: Fraction) -> None:
        super().__init__(message)
        self.missing = missing


def time_to_check(result: Result[S], limit_s: float | None, elapsed_s: float) -> float:
    """Return the seconds that the check of a bound may take after a solve with a limit of ``limit_s``."""
    allowed = max(OPTIMAL_CHECK_S * (result.status is Status.OPTIMAL), CHECK_SHARE * result.runtime_s)
    if limit_s is None:
        return allowed
    # A solve may exceed its limit by 5 % and 50 ms. The check may use a part of that; the rest is for errors of the
    # estimate.
    return min(allowed, max(0.0, limit_s - elapsed_s) + 0.02 * limit_s + 0.02)


def check_bound(problem: Problem, certificate: Certificate[Problem], stated: float) -> float:
    """Compute a bound again from its certificate; return how many seconds that took.

    Raises `InvalidCertificateError` if the certificate does not fit the problem or proves less than the stated bound.
    """
    started = time.perf_counter()
    if not math.isfinite(stated):
        raise InvalidCertificateError(f"the stated bound is {stated}, must be finite")
    proved = certificate.bound(problem)
    missing = (Fraction(stated) - proved) * int(sign_of(problem))
    if missing > Fraction(TOLERANCE * max(1e-9, abs(stated))):
        side = "below" if sign_of(problem) > 0 else "above"
        fault = f"its certificate ({certificate.method}) proves {_shown(proved)}, {side} the stated {stated:.12g}"
        raise ProvesLessError(fault, missing)
    return time.perf_counter() - started


def _shown(value: Fraction) -> str:
    try:
        return f"{float(value):.12g}"
    except OverflowError:
        return "-infinity" if value < 0 else "infinity"


def certificate_from_object(kind: str, obj: object) -> Certificate[Problem]:
    """Return the certificate of a solution file; raise `InvalidCertificateError` if it is wrong."""
    known = get_kind(kind).certificates
    if not isinstance(obj, dict) or not isinstance(obj.get("method"), str) or obj["method"] not in known:
        given = obj.get("method") if isinstance(obj, dict) else obj
        raise InvalidCertificateError(f"certificate.method is {given!r}, must be one of {', '.join(sorted(known))}")
    fields = {key: value for key, value in obj.items() if key != "method"}
    return known[obj["method"]].from_object(fields)
