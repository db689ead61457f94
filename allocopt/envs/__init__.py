"""Gymnasium environments in which an agent schedules the jobs of a workload; importing this registers them."""

import gymnasium

ENVIRONMENT = "allocopt/BatchScheduling-v0"

if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(
        ENVIRONMENT,
        entry_point="allocopt.envs.single:BatchSchedulingEnv",
        vector_entry_point="allocopt.envs.vector:BatchSchedulingVectorEnv",
    )
