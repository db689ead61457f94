"""Topology problems: choose the idle nodes that each job of a window gets."""

from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem

__all__ = ["Allocation", "Job", "TopologyProblem"]
