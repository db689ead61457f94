"""What an agent that selects policies is rewarded for (IRMaSim, Table I)."""

from enum import IntEnum
from typing import Literal, Protocol, get_args

from allocopt.kernels.compiled import inlined

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


MAKESPAN, ENERGY, ENERGY_DELAY, FLOW_TIME = (
    int(RewardKind[name]) for name in ("MAKESPAN", "ENERGY", "ENERGY_DELAY", "FLOW_TIME")
)
ENERGY_FLOW_TIME, ENERGY_SQUARE_FLOW_TIME = int(RewardKind.ENERGY_FLOW_TIME), int(RewardKind.ENERGY_SQUARE_FLOW_TIME)


class Sums(Protocol):
    """What rewards are made of."""

    energy_j: float
    """Of the whole machine since the first submission."""
    makespan_s: float
    """Seconds since the first submission."""
    flow_time_s: float
    square_flow_time: float
    """Sums over the jobs submitted so far of the seconds since their submission, up to their end, and of its square."""
    computing: float
    """Sum, over the actions so far, of the billions of cycles per second that were computed right after them."""


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
