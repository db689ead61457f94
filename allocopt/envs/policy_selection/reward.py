"""What an agent that selects policies is rewarded for (IRMaSim, Table I)."""

from typing import Literal, Protocol, get_args

from allocopt.kernels.compiled import inlined

RewardName = Literal[
    "makespan", "energy", "energy_delay", "flow_time", "energy_flow_time", "energy_square_flow_time", "computing"
]
REWARDS: tuple[RewardName, ...] = get_args(RewardName)
REWARD_MEANINGS: dict[str, str] = {
    "makespan": "minus the seconds from the first submission to the last end",
    "energy": "minus the energy of the whole machine in joules, idle times counted: the text's energy consumption",
    "energy_delay": "minus energy x makespan: the text's energy efficiency",
    "flow_time": "minus the sum of C, the seconds between submission and end: what Table I calls the makespan",
    "energy_flow_time": "minus energy x sum of C: what Table I calls the energy consumption",
    "energy_square_flow_time": "minus energy x sum of C^2: what Table I calls the energy efficiency",
    "computing": "*plus* the sum, over the decisions, of the billions of cycles per second computed right after each: "
    "the reward that Table I gives for the makespan; no measure of a schedule, for it counts decisions, not time",
}
"""What an episode's rewards add up to; Table I takes sums over jobs where its text speaks of the workload."""
MAKESPAN, ENERGY, ENERGY_DELAY, FLOW_TIME, ENERGY_FLOW_TIME, ENERGY_SQUARE_FLOW_TIME, COMPUTING = range(len(REWARDS))


class Sums(Protocol):
    """What rewards are made of."""

    energy_j: float  # of the whole machine since the first submission
    makespan_s: float  # seconds since the first submission
    # Sums over the jobs submitted so far of the seconds since their submission, up to their end, and of its square.
    flow_time_s: float
    square_flow_time: float
    # Sum, over the actions so far, of the billions of cycles per second that were computed right after them.
    computing: float


@inlined
def worth(tally: Sums, kind: int) -> float:
    """Worth of the episode so far; rewards are its changes."""
    if kind == MAKESPAN:
        return float(-tally.makespan_s)
    if kind == ENERGY:
        return float(-tally.energy_j)
    if kind == ENERGY_DELAY:
        return float(-tally.energy_j * tally.makespan_s)
    if kind == FLOW_TIME:
        return float(-tally.flow_time_s)
    if kind == ENERGY_FLOW_TIME:
        return float(-tally.energy_j * tally.flow_time_s)
    if kind == ENERGY_SQUARE_FLOW_TIME:
        return float(-tally.energy_j * tally.square_flow_time)
    return float(tally.computing)
