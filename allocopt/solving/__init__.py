"""Solvers: their interface and promises, the record of a solve, the result, and the checks that all solvers pass."""

from allocopt.problems.certificate import Certificate, Stated
from allocopt.solving.base import SearchSolver
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import Incumbent, StopReason
from allocopt.solving.run import Run

__all__ = ["Capabilities", "Certificate", "Incumbent", "Promise", "Run", "SearchSolver", "Stated", "StopReason"]
