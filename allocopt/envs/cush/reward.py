"""What an agent of CuSH is rewarded for."""

from dataclasses import dataclass, fields

import numpy as np

from allocopt.errors import UsageError


@dataclass(frozen=True, slots=True)
class Weights:
    """What an agent is rewarded for: a weighted sum.

    Raises `UsageError` if a weight is not finite.

    Parameters
    ----------
    waiting
        On the local reward of the paper (section 3.2), paid after every action: minus the sum of wait over length of
        the jobs that wait then, in the queue or the backlog.
    normalized_turnaround
        On minus the mean normalized turnaround time, but for its 1, accrued: every timestep costs 1 over length for
        each job that waits, and its start corrects that to 1 over service. Over an episode this adds up to
        1 - mean normalized turnaround time.
    penalty
        On minus the locality penalty of a job, paid when it starts.
    """

    waiting: float = 1.0
    normalized_turnaround: float = 0.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the weight of {part.name} is {getattr(self, part.name)}, must be a finite number")
