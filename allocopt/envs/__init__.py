"""Gymnasium environments in which an agent schedules the jobs of a workload; importing this registers them."""

import gymnasium

ENVIRONMENT = "allocopt/BatchScheduling-v0"
TWO_LEVEL = "allocopt/DRAS-v0"
CUSH = "allocopt/CuSH-v0"
POLICY_SELECTION = "allocopt/PolicySelection-v0"
COALLOCATION = "allocopt/Coallocation-v0"

if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(
        ENVIRONMENT,
        entry_point="allocopt.envs.single:BatchSchedulingEnv",
        vector_entry_point="allocopt.envs.vector:BatchSchedulingVectorEnv",
    )

if TWO_LEVEL not in gymnasium.registry:
    gymnasium.register(
        TWO_LEVEL,
        entry_point="allocopt.envs.dras.single:TwoLevelEnv",
        vector_entry_point="allocopt.envs.dras.vector:TwoLevelVectorEnv",
    )

if CUSH not in gymnasium.registry:
    gymnasium.register(
        CUSH,
        entry_point="allocopt.envs.cush.single:CushEnv",
        vector_entry_point="allocopt.envs.cush.vector:CushVectorEnv",
    )

if POLICY_SELECTION not in gymnasium.registry:
    gymnasium.register(
        POLICY_SELECTION,
        entry_point="allocopt.envs.policy_selection.single:PolicySelectionEnv",
        vector_entry_point="allocopt.envs.policy_selection.vector:PolicySelectionVectorEnv",
    )

if COALLOCATION not in gymnasium.registry:
    gymnasium.register(
        COALLOCATION,
        entry_point="allocopt.envs.coallocation.single:CoallocationEnv",
        vector_entry_point="allocopt.envs.coallocation.vector:CoallocationVectorEnv",
    )
