"""The methods that are compared: the paper's, and those that it left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocopt.files.faults import bad_file
from allocopt.simulator.optimization import OptimizationScheduler
from allocopt.simulator.order import QueueOrder
from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from heuristics.scheduling.queue_orders import F1, FirstComeFirstServed, ShortestJobFirst, Unicep, Wfp3
from heuristics.scheduling.runnable import RandomRunnable, bin_packing
from heuristics.scheduling.two_level import TwoLevelOrders
from learned.dras.reproduction.sites import Site
from learned.weights import Card, find_weights, read_weights

Maker = Callable[[Site, int], ListScheduler | Scheduler]
"""Makes a scheduler for a site, its random choices fixed by a seed."""

REFERENCE = "FCFS/B"
PAPER_RULES = (REFERENCE, "BinPacking", "Random", "Optimization")
AGENTS = {
    "Decima-PG": "decima-pg",
    "DRAS-DQL": "dras-dql",
    "DRAS-PG": "dras-pg",
    "DRAS-A2C": "dras-a2c",
    "DRAS-PPO": "dras-ppo",
}
"""Agents of the paper, and the policies that they are."""

LEADER = "DRAS-PPO"
PAPER_METHODS = (*PAPER_RULES, *AGENTS)


def _easy(order: QueueOrder) -> Maker:
    return lambda site, seed: ListScheduler(order, Backfill.EASY)


def _two_level(order: str, fill: str) -> Maker:
    return lambda site, seed: TwoLevelOrders(order, fill)


RULES: dict[str, Maker] = {
    REFERENCE: _easy(FirstComeFirstServed()),
    "BinPacking": lambda site, seed: bin_packing(),
    "Random": lambda site, seed: RandomRunnable(seed),
    "Optimization": lambda site, seed: OptimizationScheduler(objective=site.objective),
    "SJF/B": _easy(ShortestJobFirst()),
    "WFP3/B": _easy(Wfp3()),
    "UNICEP/B": _easy(Unicep()),
    "F1/B": _easy(F1()),
    "FCFS, conservative": lambda site, seed: ListScheduler(FirstComeFirstServed(), Backfill.CONSERVATIVE),
    "two-level, wfp3/sjf": _two_level("wfp3", "sjf"),
    "two-level, unicep/sjf": _two_level("unicep", "sjf"),
}
"""Methods that are not trained; ``/B`` is with EASY backfilling."""

OTHER_METHODS = tuple(name for name in RULES if name not in PAPER_RULES)


@dataclass(frozen=True, slots=True)
class Trained:
    """Where weights of agents are found: in a folder with trainings, else those that are shipped.

    Parameters
    ----------
    folder
        Folder of which every subfolder with ``weights.safetensors`` is a training; none if empty.

    Raises
    ------
    BadFileError
        If there is no such folder.
    """

    folder: str

    def __post_init__(self) -> None:
        if self.folder and not Path(self.folder).is_dir():
            raise bad_file(self.folder, "no such folder; must be one with trainings in it")

    def weights(self, agent: str, site: Site) -> list[str]:
        """Return the weights of an agent for a site, by training seed: files, or the name of what is shipped."""
        return self.of(agent, (site.trace_name,), site.weights)

    def generic(self, agent: str) -> list[str]:
        """Return the weights of an agent that was trained on several machines at once."""
        return self.of(agent, (), "generic")

    def of(self, agent: str, traces: tuple[str, ...], shipped: str) -> list[str]:
        """Return the trainings of an agent on a trace, or on several where none is named; else what is shipped."""
        found = [path for path in self.paths(agent) if _fits(path, traces)]
        if found:
            return [str(path) for path in found]
        return [shipped] if find_weights(agent, shipped).is_file() else []

    def card(self, agent: str, site: Site) -> Card | None:
        """Return what is known of the first weights of an agent for a site; None where there are none."""
        known = self.weights(agent, site)
        return read_weights(find_weights(agent, known[0]))[1] if known else None

    def trainings(self, agent: str, site: Site, seed: int) -> list[Path]:
        """Return the weights in the folder of an agent's trainings for a site with a seed."""
        found = [path for path in self.paths(agent) if _fits(path, (site.trace_name,))]
        return [path for path in found if read_weights(path)[1].seed == seed]

    def paths(self, agent: str) -> list[Path]:
        """Return the files of weights of an agent in the folder."""
        if not self.folder:
            return []
        every = sorted(Path(self.folder).glob("*/weights.safetensors"))
        return [path for path in every if read_weights(path)[1].training == agent]


def _fits(path: Path, traces: tuple[str, ...]) -> bool:
    """Whether weights are of a training on this trace, or on several where none is named."""
    known = str(read_weights(path)[1].settings["trace"]).split(",")
    return known[0].startswith(traces) and len(known) == 1 if traces else len(known) > 1


def schedulers(method: str, site: Site, seeds: Sequence[int], trained: Trained) -> list[ListScheduler | Scheduler]:
    """Return one scheduler per training of an agent, one per seed of a random method, else one alone.

    None where an agent's weights are neither found nor shipped.
    """
    if method in AGENTS:
        agent = AGENTS[method]
        return [_scheduler(agent, weights) for weights in trained.weights(agent, site)]
    return [RULES[method](site, seed) for seed in (seeds if method == "Random" else seeds[:1])]


def _scheduler(agent: str, weights: str) -> ListScheduler | Scheduler:
    """Return an agent as a scheduler."""
    policy = get_policy(agent, {"weights": weights})
    assert not isinstance(policy, QueueOrder)
    return policy


def present(methods: Sequence[str], site: Site, trained: Trained) -> list[str]:
    """Return the methods without the agents for which there are no weights."""
    return [name for name in methods if name not in AGENTS or trained.weights(AGENTS[name], site)]
