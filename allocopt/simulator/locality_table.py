"""The coefficients of the locality model that come with the package, in timesteps of the CuSH environment.

The paper prints no numbers (its Figure 2 is a picture). These are no measurements: they were chosen, on training job
sets only, so that the baselines come in the order of Table 1; see docs/cush.md. Fit your own with
``allocopt calibrate locality``.
"""

from allocopt.simulator.locality import Line, PenaltyTable, Policy, WorkloadType

SIERRA_TABLE = PenaltyTable(
    {
        (WorkloadType.COMPUTE, Policy.DEPTH_FIRST): Line(0.05, 0.0001),
        (WorkloadType.COMPUTE, Policy.BREADTH_FIRST): Line(12.0, 0.042),
        (WorkloadType.NETWORK, Policy.DEPTH_FIRST): Line(12.5, 0.002),
        (WorkloadType.NETWORK, Policy.BREADTH_FIRST): Line(1.9, 0.0005),
    }
)
"""Timesteps of a job without GPUs, and for each GPU that it asks for."""
SHARE = 0.7
"""Largest request of the paper's job sets as a share of the cluster, chosen together with the coefficients."""
