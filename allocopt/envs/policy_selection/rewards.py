"""What an agent that selects policies is rewarded for (IRMaSim, Table I)."""

from enum import IntEnum
from typing import Literal, get_args

RewardName = Literal[
    "makespan", "energy", "energy_delay", "flow_time", "energy_flow_time", "energy_square_flow_time", "computing"
]
REWARDS: tuple[RewardName, ...] = get_args(RewardName)


class RewardKind(IntEnum):
    """The rewards; but for the last one, an episode's add up to minus what the name says, in seconds and joules."""

    MAKESPAN = 0
    """Seconds from the first submission to the last end."""
    ENERGY = 1
    """Energy of the whole machine."""
    ENERGY_DELAY = 2
    """Energy times makespan."""
    FLOW_TIME = 3
    """Sum of the seconds between submission and end: what Table I calls the makespan."""
    ENERGY_FLOW_TIME = 4
    """Energy times flow time: what Table I calls the energy consumption."""
    ENERGY_SQUARE_FLOW_TIME = 5
    """Energy times the sum of the squares of those seconds: what Table I calls the energy efficiency."""
    COMPUTING = 6
    """The reward that Table I gives for the makespan: billions of cycles per second computed after the action."""


def kind_of(name: RewardName) -> RewardKind:
    """Return the kind of a name."""
    return RewardKind[name.upper()]
