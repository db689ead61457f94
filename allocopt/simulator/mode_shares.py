"""How jobs came to run under two-level scheduling (DRAS, Table 4 and Figure 9)."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.simulator.rules import Mode
from allocopt.simulator.schedule import Schedule, job_times, run_times


@dataclass(frozen=True, slots=True)
class ModeShare:
    """The jobs of one mode.

    Parameters
    ----------
    mode
        The mode.
    jobs, node_seconds
        Their share of all jobs, and of all that jobs held, in 0 .. 1.
    mean_wait_s
        Their mean wait; NaN where there are none.
    """

    mode: Mode
    jobs: float
    node_seconds: float
    mean_wait_s: float


def mode_shares(schedule: Schedule, modes: IntArray) -> tuple[ModeShare, ...]:
    """Return the shares of ready, reserved and backfilled jobs.

    Parameters
    ----------
    schedule
        A complete schedule of at least one job.
    modes
        The `Mode` of each job, shape ``(n,)``.
    """
    held = schedule.workload.processors * run_times(schedule)
    waits = job_times(schedule).wait_s
    return tuple(
        ModeShare(
            mode,
            float((modes == mode).mean()),
            float(held[modes == mode].sum() / held.sum()),
            float(waits[modes == mode].mean()) if (modes == mode).any() else np.nan,
        )
        for mode in (Mode.READY, Mode.RESERVED, Mode.BACKFILLED)
    )
