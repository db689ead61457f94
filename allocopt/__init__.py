"""Decide which nodes of a cluster each waiting job gets.

The names below are what everybody needs; the rest is reached by part: `allocopt.topology`, `allocopt.knapsack`,
`allocopt.coallocation`, `allocopt.placement`, `allocopt.solving`, `allocopt.simulation`, `allocopt.cluster`,
`allocopt.workloads`. Each is imported when it is first asked for, so that ``import allocopt`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from allocopt.version import __version__

if TYPE_CHECKING:
    import allocopt.cluster
    import allocopt.coallocation
    import allocopt.knapsack
    import allocopt.placement
    import allocopt.simulation
    import allocopt.solving
    import allocopt.topology
    import allocopt.workloads  # noqa: F401 - the parts
    from allocopt.cluster.platform import Platform
    from allocopt.cluster.reading import read_topology, write_topology
    from allocopt.cluster.topology import FatTree, Tree
    from allocopt.errors import AllocoptError
    from allocopt.problems.base import Problem
    from allocopt.problems.instances import read_problems, write_problems
    from allocopt.problems.kind import ProblemKind
    from allocopt.simulator.metrics import measure
    from allocopt.simulator.schedule import Schedule
    from allocopt.simulator.scheduler import get_policy, policy_names
    from allocopt.simulator.simulate import simulate
    from allocopt.simulator.what_if import WhatIf
    from allocopt.solving.budget import Budget
    from allocopt.solving.contract import contract_checks
    from allocopt.solving.protocol import Solver, get_solver, solver_names
    from allocopt.solving.result import Result, SolveInterrupted, Status
    from allocopt.solving.solve import solve
    from allocopt.solving.verify import verify
    from allocopt.traces.reading import read_workload
    from allocopt.traces.workload import Workload

_HOMES = {
    "AllocoptError": "errors",
    "Budget": "solving.budget",
    "FatTree": "cluster.topology",
    "Platform": "cluster.platform",
    "Problem": "problems.base",
    "ProblemKind": "problems.kind",
    "Result": "solving.result",
    "Schedule": "simulator.schedule",
    "SolveInterrupted": "solving.result",
    "Solver": "solving.protocol",
    "Status": "solving.result",
    "Tree": "cluster.topology",
    "WhatIf": "simulator.what_if",
    "Workload": "traces.workload",
    "contract_checks": "solving.contract",
    "get_policy": "simulator.scheduler",
    "get_solver": "solving.protocol",
    "measure": "simulator.metrics",
    "policy_names": "simulator.scheduler",
    "read_problems": "problems.instances",
    "read_topology": "cluster.reading",
    "read_workload": "traces.reading",
    "simulate": "simulator.simulate",
    "solve": "solving.solve",
    "solver_names": "solving.protocol",
    "verify": "solving.verify",
    "write_problems": "problems.instances",
    "write_topology": "cluster.reading",
}

_PARTS = ("cluster", "coallocation", "knapsack", "placement", "simulation", "solving", "topology", "workloads")

__all__ = [
    "AllocoptError",
    "Budget",
    "FatTree",
    "Platform",
    "Problem",
    "ProblemKind",
    "Result",
    "Schedule",
    "SolveInterrupted",
    "Solver",
    "Status",
    "Tree",
    "WhatIf",
    "Workload",
    "__version__",
    "contract_checks",
    "get_policy",
    "get_solver",
    "measure",
    "policy_names",
    "read_problems",
    "read_topology",
    "read_workload",
    "simulate",
    "solve",
    "solver_names",
    "verify",
    "write_problems",
    "write_topology",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home, or a part."""
    if name in _PARTS:
        return import_module(f"allocopt.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt' has no attribute {name!r}; its parts are {', '.join(_PARTS)}")
    return getattr(import_module(f"allocopt.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
