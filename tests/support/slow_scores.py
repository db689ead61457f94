"""Simple, slow twin of the scores of waiting jobs, written from section "Scores" of docs/simulator.md."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.scoring import FEATURES

UNKNOWN = -1  # user


def network_named(name: str) -> FloatArray:
    """Return a network by a name such as ``network-17``: the random one of that seed."""
    return random_network(int(name.removeprefix("network-")))


def random_network(seed: int) -> FloatArray:
    """Return a network whose features all matter, with up to four hidden neurons; ages have some weight of their own.

    Few decimals would make equal scores likely, which rounding could order in either way.
    """
    rng = np.random.default_rng(seed)
    network = rng.normal(size=(len(FEATURES) + 2, 1 + int(rng.integers(5))))
    network[-1, 0] = 1.0
    return network


@dataclass
class SlowScores:
    """What is known of jobs that have run, and the scores of those that wait."""

    asked: Sequence[Mapping[str, float]]  # of each job, by resource
    total: Mapping[str, float]  # of the resources that count
    limit: Sequence[float]
    user: Sequence[int]
    runs: dict[int, list[float]] = field(default_factory=dict)  # of the jobs of each user that have ended
    used: dict[int, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)  # of started jobs
    mean_wait: float = 0.0

    def started(self, wait: float) -> None:
        """Note that a job has started after so many seconds."""
        self.waits.append(wait)
        self.mean_wait += max(1 / 100, 1 / len(self.waits)) * (wait - self.mean_wait)

    def ended(self, job: int, run: float) -> None:
        """Note that a job has ended after so many seconds."""
        user = self.user[job]
        self.runs.setdefault(user, []).append(run)
        self.used[user] = (self.used.get(user, 0.5) + run / self.limit[job]) / 2

    def predicted(self, job: int) -> float:
        """Return the predicted run time of a job."""
        runs = self.runs.get(self.user[job], [])[-2:]
        if self.user[job] == UNKNOWN or not runs:
            return self.limit[job]
        return min(sum(runs) / len(runs), self.limit[job])

    def share(self, job: int) -> float:
        """Return the share of the machine that a job asks for."""
        share = min(1.0, max(self.asked[job].get(one, 0) / has for one, has in self.total.items()))
        return share or 1 / max(self.total.values())

    def scores(
        self, network: FloatArray, now: float, joined: Mapping[int, float], running: Iterable[int]
    ) -> dict[int, float]:
        """Return the score of each waiting job, given when these joined the queue."""
        waits = {job: now - time for job, time in joined.items()}
        if not waits:
            return {}
        longest, number = max(waits.values()), len(waits)
        mean_limit = sum(self.limit[job] for job in waits) / number
        mean_share = sum(self.share(job) for job in waits) / number
        work = sum(self.limit[job] * self.share(job) for job in waits) / 3600
        held = [self.asked[job] for job in running]
        idle = {one: has - sum(min(holding.get(one, 0), has) for holding in held) for one, has in self.total.items()}
        found = {}
        for job, wait in waits.items():
            limit, share, predicted = self.limit[job], self.share(job), self.predicted(job)
            known = self.user[job] != UNKNOWN
            asked = {one: min(self.asked[job].get(one, 0), has) for one, has in self.total.items()}
            beyond = log((wait + 600) / (self.mean_wait + 600))
            features = {
                "limit": log(limit),
                "share": log(share),
                "predicted": log(predicted),
                "wait": log(wait + 60),
                "wait_per_limit": log((wait + 60) / limit),
                "wait_per_predicted": log((wait + 60) / predicted),
                "limit_in_queue": log(limit / mean_limit),
                "share_in_queue": log(share / mean_share),
                "wait_in_queue": wait / longest if longest else 0.0,
                "used_of_limit": self.used.get(self.user[job], 0.5) if known else 0.5,
                "fits": float(all(amount <= idle[one] for one, amount in asked.items())),
                "wait_to_mean": beyond,
                "starving": max(0.0, beyond - log(10)),
                "work": log(work + 0.1),
                "waiting": log(number),
                "longest_wait": log(longest / 3600 + 0.1),
                "idle": min(idle[one] / has for one, has in self.total.items()),
            }
            assert list(features) == list(FEATURES)
            *rows, biases, outputs = network.tolist()
            at_neurons = [
                bias + sum(row[neuron] * x for row, x in zip(rows, features.values(), strict=True))
                for neuron, bias in enumerate(biases)
            ]
            hidden = [at_neurons[0], *(x / (1 + abs(x)) for x in at_neurons[1:])]
            found[job] = sum(output * x for output, x in zip(outputs, hidden, strict=True))
        return found
