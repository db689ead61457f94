"""The sequential allocation."""

from allocopt.problems.encoding import sequential_allocation, trivial_allocation

__all__ = ["sequential_allocation", "trivial_allocation"]
