"""Certificates: the data from which a checker outside the solver computes a bound again, exactly.

A solver returns a certificate with its bound, such as the prices of a relaxation. The checker of the kind recomputes
the bound from the raw problem and the certificate, in whole or rational numbers, by an algorithm that no solver uses.
``docs/certificates.md`` states the formulas.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, TypeVar

from allocopt.errors import InvalidSolutionError
from allocopt.problems.base import Problem

P = TypeVar("P", bound=Problem)


class InvalidCertificateError(InvalidSolutionError):
    """A certificate that does not belong to its problem, or proves less than is stated."""


class TooLargeToCheckError(InvalidCertificateError):
    """A certificate that cannot be checked because the problem is too large; it need not be wrong."""


class Certificate(ABC, Generic[P]):
    """The data that prove a bound: a frozen dataclass of numbers, texts and tuples of these, as in its file."""

    method: ClassVar[str]
    """Name of the formula in files and in `allocopt.problems.kind.ProblemKind.certificates`."""

    @abstractmethod
    def bound(self, problem: P) -> Fraction:
        """Return the bound that the certificate proves, computed exactly from the raw problem.

        Raises `InvalidCertificateError` if the certificate does not belong to the problem.
        """

    @abstractmethod
    def seconds(self, problem: P) -> float:
        """Return an estimate of the time that `bound` takes; infinity if the bound cannot be computed."""

    def rounding(self, problem: P) -> float:
        """Return how much tighter the bound could be without rounding the prices, in the unit of the objective."""
        return 0.0

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        """Return the compiled entries that `bound` calls."""
        return ()

    def as_object(self) -> dict[str, object]:
        """Return the certificate as a file holds it, without empty fields."""
        held = {name: value for name, value in asdict(self).items() if value != ()}  # type: ignore[call-overload]
        return {"method": self.method, **held}

    @classmethod
    def from_object(cls, fields: Mapping[str, object]) -> Self:
        """Return the certificate with the fields of a file, without ``method``.

        Raises `InvalidCertificateError` if a field is wrong.
        """
        # Imported here because only files need pydantic.
        from pydantic import TypeAdapter, ValidationError, with_config

        from allocopt.files.models import first_fault

        try:
            return TypeAdapter(with_config(extra="forbid")(cls)).validate_python(dict(fields))
        except ValidationError as error:
            place, fault = first_fault(error, dict(fields))
            raise InvalidCertificateError(f"certificate.{place} {fault}") from None


@dataclass(frozen=True, slots=True)
class Stated(Certificate[Any]):
    """A bound that another program, such as SCIP, states without a proof, so that it cannot be checked here."""

    by: str  # program and version

    method: ClassVar[str] = "stated"

    def bound(self, problem: Any) -> Fraction:
        raise InvalidCertificateError(f"the bound is stated by {self.by}, which gives no proof")

    def seconds(self, problem: Any) -> float:
        return math.inf


def floors(values: Iterable[float], scale: int) -> list[int]:
    """Return each value times ``scale``, a power of two, rounded down exactly.

    Raises `InvalidCertificateError` for NaN or infinity. Checkers round prices in this way. This is safe, because any
    prices prove a bound.
    """
    found = []
    for value in values:
        if not math.isfinite(value):
            raise InvalidCertificateError(f"a price is {value}, must be finite")
        numerator, denominator = float(value).as_integer_ratio()
        found.append(numerator * scale // denominator)
    return found
