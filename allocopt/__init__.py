"""Decide which nodes of a cluster each waiting job gets.

The names below are the package's public interface; each is imported when it is first asked for, so that
``import allocopt`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocopt.cluster.graphml import graph_of, tree_of_graph
    from allocopt.cluster.hostlist import expand_hostlist, fold_hostlist
    from allocopt.cluster.named import NamedTree
    from allocopt.cluster.platform import Part, Platform
    from allocopt.cluster.reading import read_topology, write_topology
    from allocopt.cluster.topology import FatTree, Tree
    from allocopt.errors import AllocoptError
    from allocopt.files.instance import read_problems, write_problems
    from allocopt.problems.base import Problem, Strategy
    from allocopt.problems.coallocation.interference import Interference, Sharing
    from allocopt.problems.coallocation.problem import (
        Coallocation,
        CoallocationObjective,
        CoallocationProblem,
        GuestPlace,
    )
    from allocopt.problems.coallocation.profile import ProfiledJob, Stage, StageKind
    from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem, Reward, Selection
    from allocopt.problems.side import Groups, Placement, Preference, Segments
    from allocopt.problems.topology import Allocation, Job, TopologyProblem
    from allocopt.simulator.allocators import Allocator
    from allocopt.simulator.execution import ExecutionModel
    from allocopt.simulator.hop_slowdown import HopSlowdown
    from allocopt.simulator.metrics import Metrics, measure
    from allocopt.simulator.optimization import OptimizationScheduler
    from allocopt.simulator.order import OrderKind, QueueKeys, QueueOrder
    from allocopt.simulator.placement import Share
    from allocopt.simulator.registry import get_policy, policy_names
    from allocopt.simulator.rules import Backfill, EventOrder, Rules
    from allocopt.simulator.schedule import Schedule
    from allocopt.simulator.scheduler import ListScheduler, PlaceGuest, Reserve, Scheduler, SetQuota, Start, Wait
    from allocopt.simulator.simulate import simulate
    from allocopt.simulator.view import View
    from allocopt.simulator.what_if import WhatIf
    from allocopt.solving.base import CoallocationSolver, KnapsackSolver, TopologySolver
    from allocopt.solving.budget import Budget
    from allocopt.solving.contract import ContractCheck, ContractError, contract_checks
    from allocopt.solving.one_shot import OneShot
    from allocopt.solving.pareto import ParetoPoint, pareto_front
    from allocopt.solving.protocol import Capabilities, Promise, Solver
    from allocopt.solving.registry import get_solver, solver_names
    from allocopt.solving.result import Incumbent, Result, SolveInterrupted, Status, StopReason
    from allocopt.solving.run import Run
    from allocopt.solving.solve import solve
    from allocopt.solving.verify import verify
    from allocopt.traces.csv_columns import Columns
    from allocopt.traces.reading import read_workload
    from allocopt.traces.workload import Workload

__version__ = "0.1.0"

_HOMES = {
    "Allocation": "problems.topology",
    "Allocator": "simulator.allocators",
    "AllocoptError": "errors",
    "Backfill": "simulator.rules",
    "Budget": "solving.budget",
    "Capabilities": "solving.protocol",
    "Coallocation": "problems.coallocation.problem",
    "CoallocationObjective": "problems.coallocation.problem",
    "CoallocationProblem": "problems.coallocation.problem",
    "CoallocationSolver": "solving.base",
    "Columns": "traces.csv_columns",
    "ContractCheck": "solving.contract",
    "ContractError": "solving.contract",
    "EventOrder": "simulator.rules",
    "ExecutionModel": "simulator.execution",
    "FatTree": "cluster.topology",
    "Groups": "problems.side",
    "GuestPlace": "problems.coallocation.problem",
    "HopSlowdown": "simulator.hop_slowdown",
    "Incumbent": "solving.result",
    "Interference": "problems.coallocation.interference",
    "Job": "problems.topology",
    "KnapsackJob": "problems.knapsack",
    "KnapsackProblem": "problems.knapsack",
    "KnapsackSolver": "solving.base",
    "ListScheduler": "simulator.scheduler",
    "Metrics": "simulator.metrics",
    "NamedTree": "cluster.named",
    "OneShot": "solving.one_shot",
    "OptimizationScheduler": "simulator.optimization",
    "OrderKind": "simulator.order",
    "ParetoPoint": "solving.pareto",
    "Part": "cluster.platform",
    "PlaceGuest": "simulator.scheduler",
    "Placement": "problems.side",
    "Platform": "cluster.platform",
    "Preference": "problems.side",
    "Problem": "problems.base",
    "ProfiledJob": "problems.coallocation.profile",
    "Promise": "solving.protocol",
    "QueueKeys": "simulator.order",
    "QueueOrder": "simulator.order",
    "Reserve": "simulator.scheduler",
    "Result": "solving.result",
    "Reward": "problems.knapsack",
    "Rules": "simulator.rules",
    "Run": "solving.run",
    "Schedule": "simulator.schedule",
    "Scheduler": "simulator.scheduler",
    "Segments": "problems.side",
    "Selection": "problems.knapsack",
    "SetQuota": "simulator.scheduler",
    "Share": "simulator.placement",
    "Sharing": "problems.coallocation.interference",
    "SolveInterrupted": "solving.result",
    "Solver": "solving.protocol",
    "Stage": "problems.coallocation.profile",
    "StageKind": "problems.coallocation.profile",
    "Start": "simulator.scheduler",
    "Status": "solving.result",
    "StopReason": "solving.result",
    "Strategy": "problems.base",
    "TopologyProblem": "problems.topology",
    "TopologySolver": "solving.base",
    "Tree": "cluster.topology",
    "View": "simulator.view",
    "Wait": "simulator.scheduler",
    "WhatIf": "simulator.what_if",
    "Workload": "traces.workload",
    "contract_checks": "solving.contract",
    "expand_hostlist": "cluster.hostlist",
    "fold_hostlist": "cluster.hostlist",
    "get_policy": "simulator.registry",
    "get_solver": "solving.registry",
    "graph_of": "cluster.graphml",
    "measure": "simulator.metrics",
    "pareto_front": "solving.pareto",
    "policy_names": "simulator.registry",
    "read_problems": "files.instance",
    "read_topology": "cluster.reading",
    "read_workload": "traces.reading",
    "simulate": "simulator.simulate",
    "solve": "solving.solve",
    "solver_names": "solving.registry",
    "tree_of_graph": "cluster.graphml",
    "verify": "solving.verify",
    "write_problems": "files.instance",
    "write_topology": "cluster.reading",
}

__all__ = [
    "Allocation",
    "Allocator",
    "AllocoptError",
    "Backfill",
    "Budget",
    "Capabilities",
    "Coallocation",
    "CoallocationObjective",
    "CoallocationProblem",
    "CoallocationSolver",
    "Columns",
    "ContractCheck",
    "ContractError",
    "EventOrder",
    "ExecutionModel",
    "FatTree",
    "Groups",
    "GuestPlace",
    "HopSlowdown",
    "Incumbent",
    "Interference",
    "Job",
    "KnapsackJob",
    "KnapsackProblem",
    "KnapsackSolver",
    "ListScheduler",
    "Metrics",
    "NamedTree",
    "OneShot",
    "OptimizationScheduler",
    "OrderKind",
    "ParetoPoint",
    "Part",
    "PlaceGuest",
    "Placement",
    "Platform",
    "Preference",
    "Problem",
    "ProfiledJob",
    "Promise",
    "QueueKeys",
    "QueueOrder",
    "Reserve",
    "Result",
    "Reward",
    "Rules",
    "Run",
    "Schedule",
    "Scheduler",
    "Segments",
    "Selection",
    "SetQuota",
    "Share",
    "Sharing",
    "SolveInterrupted",
    "Solver",
    "Stage",
    "StageKind",
    "Start",
    "Status",
    "StopReason",
    "Strategy",
    "TopologyProblem",
    "TopologySolver",
    "Tree",
    "View",
    "Wait",
    "WhatIf",
    "Workload",
    "__version__",
    "contract_checks",
    "expand_hostlist",
    "fold_hostlist",
    "get_policy",
    "get_solver",
    "graph_of",
    "measure",
    "pareto_front",
    "policy_names",
    "read_problems",
    "read_topology",
    "read_workload",
    "simulate",
    "solve",
    "solver_names",
    "tree_of_graph",
    "verify",
    "write_problems",
    "write_topology",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'allocopt' has no attribute {name!r}")
    return getattr(import_module(f"allocopt.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
