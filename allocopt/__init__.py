"""Decide which nodes of a cluster each waiting job gets.

The names below are the most common ones. Others are in the parts `allocopt.topology`, `allocopt.knapsack`,
`allocopt.coallocation`, `allocopt.placement`, `allocopt.solving`, `allocopt.simulator`, `allocopt.cluster`,
`allocopt.traces` and `allocopt.plot`. Names and parts are imported when they are first used, so that ``import
allocopt`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from allocopt.gymnasium_hook import register_with_gymnasium
from allocopt.version import __version__

if TYPE_CHECKING:
    import allocopt.cluster
    import allocopt.coallocation
    import allocopt.knapsack
    import allocopt.placement
    import allocopt.plot
    import allocopt.simulator
    import allocopt.solving
    import allocopt.topology
    import allocopt.traces  # noqa: F401 - the parts
    from allocopt.cluster.platform import Platform
    from allocopt.cluster.reading import read_topology, write_topology
    from allocopt.cluster.topology import FatTree, Tree
    from allocopt.errors import AllocoptError
    from allocopt.model import Model
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

# Modules of the public names.
_HOMES = {
    "cluster.platform": ["Platform"],
    "cluster.reading": ["read_topology", "write_topology"],
    "cluster.topology": ["FatTree", "Tree"],
    "errors": ["AllocoptError"],
    "model": ["Model"],
    "problems.base": ["Problem"],
    "problems.instances": ["read_problems", "write_problems"],
    "problems.kind": ["ProblemKind"],
    "simulator.metrics": ["measure"],
    "simulator.schedule": ["Schedule"],
    "simulator.scheduler": ["get_policy", "policy_names"],
    "simulator.simulate": ["simulate"],
    "simulator.what_if": ["WhatIf"],
    "solving.budget": ["Budget"],
    "solving.contract": ["contract_checks"],
    "solving.protocol": ["Solver", "get_solver", "solver_names"],
    "solving.result": ["Result", "SolveInterrupted", "Status"],
    "solving.solve": ["solve"],
    "solving.verify": ["verify"],
    "traces.reading": ["read_workload"],
    "traces.workload": ["Workload"],
}
_PARTS = ("cluster", "coallocation", "knapsack", "placement", "plot", "simulator", "solving", "topology", "traces")

__all__ = [
    "AllocoptError", "Budget", "FatTree", "Model", "Platform", "Problem", "ProblemKind", "Result", "Schedule",
    "SolveInterrupted", "Solver", "Status", "Tree", "WhatIf", "Workload", "__version__", "contract_checks",
    "get_policy", "get_solver", "measure", "policy_names", "read_problems", "read_topology", "read_workload",
    "simulate", "solve", "solver_names", "verify", "write_problems", "write_topology",
]  # fmt: skip

register_with_gymnasium()


def __getattr__(name: str) -> Any:
    """Return a public name from its module, or a part, importing it first."""
    if name in _PARTS:
        return import_module(f"allocopt.{name}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'allocopt' has no attribute {name!r}; its parts are {', '.join(_PARTS)}")
    return getattr(import_module(f"allocopt.{home}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
