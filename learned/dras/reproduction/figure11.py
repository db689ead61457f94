"""Figure 11: a generic agent, trained on other machines, beside the one that was trained on the machine itself."""

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.registry import get_policy
from allocopt.simulator.scheduler import Scheduler
from allocopt.simulator.simulate import simulate
from learned.dras.reproduction.measures import metrics_of
from learned.dras.reproduction.methods import AGENTS, LEADER, REFERENCE, RULES, Trained
from learned.dras.reproduction.sites import JOBSETS, SITES, Site, jobsets_of

CUSTOMIZED, GENERIC = f"{LEADER}, customized", f"{LEADER}, generic"


@dataclass(frozen=True, slots=True)
class FigureElevenReproduction:
    """Figure 11 of the DRAS paper.

    The generic agent is trained on several machines in turn; features and network do not depend on the machine. The
    paper takes DRAS-PG and models of RLScheduler, here both agents are DRAS-PPO.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights are taken in place of the shipped ones.
    """

    trained: str = ""

    name: ClassVar[str] = "dras-figure11"
    title: ClassVar[str] = "Figure 11 of the DRAS paper: a generic agent beside the customized one"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return machines, jobsets and agents."""
        return [
            f"{site.name}, {kind}: {method}"
            for site in SITES.values()
            for kind in JOBSETS
            for method in (REFERENCE, CUSTOMIZED, GENERIC)
            if method == REFERENCE or self._weights(method, site)
        ]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate all jobsets."""
        where, method = piece.split(": ")
        site_name, kind = where.split(", ")
        site = SITES[site_name]
        schedulers: list[Any] = [RULES[REFERENCE](site, 0)]
        if method != REFERENCE:
            schedulers = [_agent(weights) for weights in self._weights(method, site)]
        jobsets = jobsets_of(site, kind, request)
        return {
            "runs": [
                [metrics_of(simulate(jobs, site.processors, scheduler)) for jobs in jobsets] for scheduler in schedulers
            ]
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the metrics."""
        rows = []
        for piece, record in records.items():
            runs = record["runs"]
            for metric in runs[0][0]:
                values = [fmean(jobset[metric] for jobset in run) for run in runs]
                spread = stdev(values) if len(values) > 1 else None
                n = len(runs) * len(runs[0])
                rows.append(ReproductionRow(self.name, piece, metric, None, fmean(values), spread, n))
        return rows

    def _weights(self, method: str, site: Site) -> list[str]:
        """Return the weights of an agent."""
        trained, agent = Trained(self.trained), AGENTS[LEADER]
        return trained.weights(agent, site) if method == CUSTOMIZED else trained.generic(agent)


def _agent(weights: str) -> Scheduler:
    """Return DRAS-PPO with some weights."""
    policy = get_policy(AGENTS[LEADER], {"weights": weights})
    assert isinstance(policy, Scheduler)
    return policy
