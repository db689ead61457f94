"""Certificates: what a bound rests on, enough for a checker outside the solver to compute the bound again, exactly.

A solver states a bound and hands its certificate over, such as the prices of a relaxation. The checker of the kind
computes the bound anew from the raw problem and the certificate, in whole or rational numbers, by an algorithm that no
solver uses. ``docs/certificates.md`` states the formulas.
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
    """A certificate whose check gives up because the problem is too large for it; nothing is known to be wrong."""


class Certificate(ABC, Generic[P]):
    """What a bound rests on; a frozen dataclass of numbers, texts and tuples of these, as its file holds them."""

    method: ClassVar[str]
    """Name of the formula, by which files and `allocopt.problems.kind.ProblemKind.certificates` have it."""

    @abstractmethod
    def bound(self, problem: P) -> Fraction:
        """Return the bound that it proves, computed exactly from the raw problem.

        Raises `InvalidCertificateError` if it does not belong to the problem.
        """

    @abstractmethod
    def seconds(self, problem: P) -> float:
        """Return about how long `bound` takes; infinity where it cannot be computed."""

    def rounding(self, problem: P) -> float:
        """Return the most that rounding of prices can have taken off the bound, in the unit of the objective."""
        return 0.0

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        """Return the compiled entries that `bound` calls."""
        return ()

    def as_object(self) -> dict[str, object]:
        """Return it as a file holds it, without fields that are empty."""
        held = {name: value for name, value in asdict(self).items() if value != ()}  # type: ignore[call-overload]
        return {"method": self.method, **held}

    @classmethod
    def from_object(cls, fields: Mapping[str, object]) -> Self:
        """Make it of what a file holds beside its method; raise `InvalidCertificateError` if that is wrong."""
        # For files only.
        from pydantic import TypeAdapter, ValidationError, with_config

        from allocopt.files.models import first_fault

        try:
            return TypeAdapter(with_config(extra="forbid")(cls)).validate_python(dict(fields))
        except ValidationError as error:
            place, fault = first_fault(error, dict(fields))
            raise InvalidCertificateError(f"certificate.{place} {fault}") from None


@dataclass(frozen=True, slots=True)
class Stated(Certificate[Any]):
    """A bound that another program states, such as SCIP: its proof is not handed over, so nobody can check it here."""

    by: str  # program and version

    method: ClassVar[str] = "stated"

    def bound(self, problem: Any) -> Fraction:
        raise InvalidCertificateError(f"the bound is stated by {self.by}, which hands no proof over")

    def seconds(self, problem: Any) -> float:
        return math.inf


def floors(values: Iterable[float], scale: int) -> list[int]:
    """Return each value times a power of two, rounded down exactly.

    Raises `InvalidCertificateError` for NaN or infinity. Prices are rounded so: any prices prove a bound, so the
    checker may take simple ones.
    """
    found = []
    for value in values:
        if not math.isfinite(value):
            raise InvalidCertificateError(f"a price is {value}, must be finite")
        numerator, denominator = float(value).as_integer_ratio()
        found.append(numerator * scale // denominator)
    return found
