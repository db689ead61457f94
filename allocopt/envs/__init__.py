"""Gymnasium environments in which an agent schedules the jobs of a workload; importing this registers them."""

import gymnasium

ENVIRONMENT = "allocopt/BatchScheduling-v0"
TWO_LEVEL = "allocopt/DRAS-v0"
CUSH = "allocopt/CuSH-v0"
POLICY_SELECTION = "allocopt/PolicySelection-v0"
COALLOCATION = "allocopt/Coallocation-v0"

TASKS = {
    ENVIRONMENT: ("batch_scheduling", "BatchScheduling"),
    TWO_LEVEL: ("dras", "TwoLevel"),
    CUSH: ("cush", "Cush"),
    POLICY_SELECTION: ("policy_selection", "PolicySelection"),
    COALLOCATION: ("coallocation", "Coallocation"),
}
"""Folder and class name of each task, by id; the names of its environments end in `Env` and `VectorEnv`."""

for _id, (_folder, _name) in TASKS.items():
    if _id not in gymnasium.registry:
        _entry = f"allocopt.envs.{_folder}.task:{_name}"
        gymnasium.register(_id, entry_point=f"{_entry}Env", vector_entry_point=f"{_entry}VectorEnv")
