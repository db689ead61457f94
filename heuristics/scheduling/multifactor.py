"""Queue order ``multifactor``: Slurm's priority/multifactor by age, job size and processors.

https://slurm.schedmd.com/priority_multifactor.html. Fair share, associations, partitions and qualities of service are
left out, because traces do not have them.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.simulator.rules import OrderKind, QueueKeys
from allocopt.traces.workload import Workload

DAY_S, MINUTE_S = 86_400.0, 60.0
_LARGEST = 1_000_000_000  # sum of the weights in slurm.conf: priorities are numbers of 32 bits


@dataclass(frozen=True, slots=True)
class Multifactor:
    """Order jobs by Slurm's priority, the highest first. Raises `UsageError` if a weight is negative or all are 0.

    Time limits count in whole minutes, as in Slurm. Slurm limits a job's age to `max_age_days`; here it is not limited.

    Parameters
    ----------
    age
        ``PriorityWeightAge``, the weight of the wait divided by `max_age_days`.
    job_size
        ``PriorityWeightJobSize``, the weight of the job's share of the machine's processors.
    cpu
        ``PriorityWeightTRES=CPU=``, the weight of the same share.
    max_age_days
        ``PriorityMaxAge`` in days.
    small_relative_to_time
        ``PriorityFlags=SMALL_RELATIVE_TO_TIME``: job size is the share divided by the time limit in minutes.
    favor_small
        ``PriorityFavorSmall``: job size is 1 minus this value.
    """

    age: float = 1000.0
    job_size: float = 1000.0
    cpu: float = 0.0
    max_age_days: float = 7.0
    small_relative_to_time: bool = False
    favor_small: bool = False

    name: ClassVar[str] = "multifactor"

    def __post_init__(self) -> None:
        weights = {"age": self.age, "job_size": self.job_size, "cpu": self.cpu}
        for name, weight in weights.items():
            if not 0 <= weight < np.inf:
                raise UsageError(f"{name} is {weight:g}, must be a weight of 0 or more")
        if not any(weights.values()):
            raise UsageError("age, job_size and cpu are all 0, at least one must be above 0")
        if not 0 < self.max_age_days < np.inf:
            raise UsageError(f"max_age_days is {self.max_age_days:g}, must be above 0")

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the negated priorities of jobs at time 0; the order never changes, because all grow equally."""
        processors = workload.machine_processors or int(workload.processors.max(initial=1))
        share = np.minimum(workload.processors / processors, 1.0)
        size = share / np.maximum(1.0, np.ceil(workload.estimate / MINUTE_S)) if self.small_relative_to_time else share
        size = 1.0 - size if self.favor_small else size
        age = -workload.submit / (self.max_age_days * DAY_S)
        return QueueKeys(OrderKind.FIXED, -(self.age * age + self.job_size * size + self.cpu * share))

    def slurm_conf(self) -> list[str]:
        """Return the lines of slurm.conf with these weights, as whole numbers."""
        scale = _LARGEST / (self.age + self.job_size + self.cpu)
        age, job_size, cpu = (round(scale * weight) for weight in (self.age, self.job_size, self.cpu))
        return [
            "PriorityType=priority/multifactor",
            f"PriorityMaxAge={self.max_age_days:.0f}-0",
            f"PriorityWeightAge={age}",
            f"PriorityWeightJobSize={job_size}",
            f"PriorityWeightTRES=CPU={cpu}",
            f"PriorityFavorSmall={'YES' if self.favor_small else 'NO'}",
            *(["PriorityFlags=SMALL_RELATIVE_TO_TIME"] if self.small_relative_to_time else []),
        ]
