"""Figure 7 of the DRAS paper on the synthetic Cori (`papers.dras.cori`): all methods on the same draws of its jobs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from allocopt.envs.dras.task import DrasEpisodes
from allocopt.learned.dras.jobsets import EVALUATION_SEEDS
from allocopt.learned.dras.policies import Agent
from allocopt.reproduction import Records
from allocopt.simulator.rules import Reservations
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import simulate
from allocopt.traces.weekly_cycle import DAY_S
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of
from papers.dras.configuration import (
    METHODS,
    PAPER_METHODS,
    REFERENCE,
    RULES,
    agent_of,
    present,
    weights_of,
)
from papers.dras.cori import CORI, cori_days
from papers.dras.figures import kiviat_area, metrics_of, normalized, paired_numbers

DRAWS, QUICK_DRAWS = 5, 1
DAYS, QUICK_DAYS = 7, 1
LEFT_OUT = ("FCFS, conservative", "two-level, wfp3/sjf", "two-level, unicep/sjf")
"""Methods that are left out because they take minutes for a day of this machine with its many jobs."""
PAIRED = ("mean wait h", "max wait h", "mean bounded slowdown")


def _methods(asked: Asked) -> list[str]:
    return [method for method in present(METHODS, CORI, asked) if method not in LEFT_OUT]


def _schedule(method: str, jobs: Workload, asked: Asked, seed: int) -> Schedule:
    """Schedule the jobs; agents run in their compiled environment, which gives the same schedule in less time."""
    name = agent_of(method)
    if name is None:
        scheduler = RULES[method](CORI, seed)
        return simulate(jobs, CORI.processors, scheduler)
    agent = Agent.load(name, weights_of(asked.trained, method, CORI)[0])
    kind = Reservations.NONE if name == "decima-pg" else Reservations.KEPT
    options = replace(agent.options(kind), skips_forced=True)
    episodes = DrasEpisodes([jobs], CORI.processors, 1, options)
    episodes.play(agent.policy().choose)
    return episodes.schedule(0)


def _record(asked: Asked, piece: str) -> Record:
    where, method = piece.split(": ")
    index = int(where.removeprefix("draw "))
    days = asked.size(DAYS, QUICK_DAYS)
    jobs = cori_days(asked.data, days, EVALUATION_SEEDS[index])
    schedule = _schedule(method, jobs, asked, index)
    # Measure utilization only over the days with arrivals: afterwards the last jobs run for days on an emptying
    # machine.
    held_s = np.clip(np.minimum(schedule.end, days * DAY_S) - schedule.start, 0.0, None)
    used = float((held_s * jobs.processors).sum()) / (days * DAY_S * CORI.processors)
    return {"jobs": len(jobs), "metrics": {**metrics_of(schedule), "utilization": used}}


def _numbers(records: Records) -> Iterator[Number]:
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for piece, record in records.items():
        by_method.setdefault(piece.split(": ")[1], []).append(record)
    means = {}
    for method, found in by_method.items():
        numbers = [mean_of(method, metric, [one["metrics"][metric] for one in found]) for metric in found[0]["metrics"]]
        yield from numbers
        means[method] = {number.column: float(number.ours or 0.0) for number in numbers}
        for metric in PAIRED:
            pairs = zip(found, by_method[REFERENCE], strict=True)
            ratios = [ours["metrics"][metric] / theirs["metrics"][metric] for ours, theirs in pairs]
            yield from paired_numbers(method, f"{metric.removesuffix(' h')} / {REFERENCE}", ratios)
    for method, axes in normalized({name: of for name, of in means.items() if name in PAPER_METHODS}).items():
        yield Number(method, "area", kiviat_area(list(axes.values())), None, len(by_method[method]))


SEVEN_ON_CORI = Artifact(
    "dras-figure7-cori",
    "Figure 7 of the DRAS paper: all methods on a synthetic Cori with the numbers of Table 2",
    lambda asked: [
        f"draw {index}: {method}" for index in range(asked.size(DRAWS, QUICK_DRAWS)) for method in _methods(asked)
    ],
    _record,
    _numbers,
    ("trained",),
)
