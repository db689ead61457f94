"""What an agent that gives quotas sees of a question, every number within 0 .. 1."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.simulator.quota.questions import Question
from allocopt.traces.applications import HOUR_S
from allocopt.traces.job_profile import StageKind

MEANINGS = {
    "host_cpu": "busy share of the host's cores, now",
    "host_memory": "occupied share of their memory, now",
    "host_sequential": "1 in a sequential stage",
    "host_interval": "share of the host's duration that is behind it",
    "host_happiness": "happiness h as h / (h + 1); up to here what ASAX's experts see",
    "host_io": "share of the time with I/O, now",
    "host_cores": "the host's cores / those of the cluster",
    "is_there": "1 if the guest is there",
    "quota": "its quota now",
    "guest_cores": "the guest's cores / those of the host",
    "guest_memory": "its peak memory, in shares of the host's",
    "guest_cpu": "its mean busy cores / those of the host",
    "guest_io": "its mean share of the time with I/O",
    "guest_limit": "its limit, x / (x + 1 h)",
    "guest_wait": "time since its submission, x / (x + 1 h)",
    "free_cores": "free cores / all cores",
    "waiting": "waiting jobs / all jobs",
}
"""What the values are; which applications host and guest are comes behind them, a one among A each, sorted by name."""
FEATURES = tuple(MEANINGS)


def size_of(applications: Sequence[str]) -> int:
    """Return the number of values of an observation."""
    return len(FEATURES) + 2 * len(applications)


def describe(question: Question, applications: Sequence[str]) -> Float32Array:
    """Describe a question, shape ``(size_of(applications),)``."""
    view, guest, host = question.view, question.job, question.allocation.host
    size = guest.job.cores / question.allocation.cores
    values = (
        host.stage.cpu,
        host.stage.memory,
        float(host.stage.kind is StageKind.SEQUENTIAL),
        host.interval(view.now),
        _squeezed(host.happiness(view.now), 1.0),
        host.stage.io,
        host.queued.job.cores / view.cores,
        float(question.is_there),
        question.allocation.percent / 100,
        size,
        guest.job.peak_memory() * size,
        guest.job.mean("cpu") * size,
        guest.job.mean("io"),
        _squeezed(guest.job.walltime_s, HOUR_S),
        _squeezed(view.now - guest.submit_s, HOUR_S),
        view.free_cores / view.cores,
        len(view.queue) / len(view.jobs),
    )
    names = (host.queued.application, guest.application)
    ones = [float(name == application) for name in names for application in applications]
    return np.clip(np.array([*values, *ones], dtype=np.float32), 0.0, 1.0)


def _squeezed(value: float, half: float) -> float:
    return value / (value + half)
