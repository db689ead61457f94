"""Workloads: jobs of a trace, and the columns of tables that hold them."""

from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

__all__ = ["Columns", "Workload", "read_workload"]
