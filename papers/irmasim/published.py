"""What the text of the IRMaSim paper says; its results are printed as pictures, of policies and batches unnamed."""

from allocopt.simulator.multicore.state import ExecutionKind

WORST_OF_LU = 4.0
"""Figure 1: the most times as long as alone that lu.A takes with contention, on the fast node."""
BELOW_HOMOGENEOUS = {"makespan s": 37.0, "energy kJ": 47.0}
BELOW_HETEROGENEOUS = {"makespan s": 30.0, "energy kJ": 45.0}
"""Figures 7 and 8: by how much per cent the paper's baseline is below the real cluster."""
POWER_HOMOGENEOUS: dict[str, float] = {ExecutionKind.CONTENTION: 440.0, ExecutionKind.BASELINE: 320.0}
"""Figure 7: mean power in watts by model."""
