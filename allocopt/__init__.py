"""Decide which nodes of a cluster each waiting job gets.

The names below are the package's public interface; each is imported when it is first asked for, so that
``import allocopt`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.cluster.topology import FatTree
    from allocopt.cluster.tree import Tree
    from allocopt.errors import AllocoptError
    from allocopt.files.instance import read_problems, write_problems
    from allocopt.problems.base import Strategy
    from allocopt.problems.topology import Allocation, Job, TopologyProblem
    from allocopt.solving.budget import Budget
    from allocopt.solving.one_shot import OneShot
    from allocopt.solving.protocol import Capabilities, Promise, Solver
    from allocopt.solving.registry import get_solver, solver_names
    from allocopt.solving.result import Incumbent, Result, Status, StopReason
    from allocopt.solving.solve import solve
    from allocopt.solving.verify import verify

__version__ = "0.1.0"

_HOMES = {
    "Allocation": "problems.topology",
    "AllocoptError": "errors",
    "Budget": "solving.budget",
    "Capabilities": "solving.protocol",
    "FatTree": "cluster.topology",
    "Incumbent": "solving.result",
    "Job": "problems.topology",
    "OneShot": "solving.one_shot",
    "Promise": "solving.protocol",
    "Result": "solving.result",
    "Solver": "solving.protocol",
    "Status": "solving.result",
    "StopReason": "solving.result",
    "Strategy": "problems.base",
    "TopologyProblem": "problems.topology",
    "Tree": "cluster.tree",
    "get_solver": "solving.registry",
    "read_problems": "files.instance",
    "solve": "solving.solve",
    "solver_names": "solving.registry",
    "verify": "solving.verify",
    "write_problems": "files.instance",
}

__all__ = [
    "Allocation",
    "AllocoptError",
    "Budget",
    "Capabilities",
    "FatTree",
    "Incumbent",
    "Job",
    "OneShot",
    "Promise",
    "Result",
    "Solver",
    "Status",
    "StopReason",
    "Strategy",
    "TopologyProblem",
    "Tree",
    "__version__",
    "get_solver",
    "read_problems",
    "solve",
    "solver_names",
    "verify",
    "write_problems",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt' has no attribute {name!r}")
    return getattr(import_module(f"allocopt.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
