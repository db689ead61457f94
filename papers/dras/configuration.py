"""Machines, jobs and methods of the comparisons: jobs that no training uses, the paper's methods, and others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file
from allocopt.heuristics.scheduling.queue_orders import (
    F1,
    FirstComeFirstServed,
    RandomRunnable,
    ShortestJobFirst,
    Unicep,
    Wfp3,
    bin_packing,
)
from allocopt.heuristics.scheduling.two_level import TwoLevelOrders
from allocopt.learned.dras.jobsets import EVALUATION_LOAD, EVALUATION_SEEDS, Split, SyntheticModel
from allocopt.learned.rlscheduler.policy import RlScheduler
from allocopt.learned.weights import read_weights, shipped_weights
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.scheduler import ListScheduler, Scheduler, get_policy
from allocopt.simulator.window import OptimizationScheduler
from allocopt.traces.reading import read_workload
from allocopt.traces.weekly_cycle import DAY_S, WEEK_DAYS
from allocopt.traces.workload import Workload
from papers.artifact import Asked

QUICK_WEEKS = 2
"""Number of held-out weeks and of synthetic weeks in a quick run."""

HELD_OUT, SYNTHETIC = "held-out", "synthetic"
JOBSETS = (HELD_OUT, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Site:
    """A machine: its shipped weights, its trace in the data folder, and the least sizes of its classes of jobs, rising.

    ``objective`` is that of Optimization: ``capability`` (Eq. 1) or ``capacity`` (Eq. 2).
    """

    name: str
    weights: str
    trace: str
    processors: int
    objective: str
    classes: tuple[int, ...]

    @property
    def trace_name(self) -> str:
        """Name of the file without its ending."""
        return Path(self.trace).name.split(".swf")[0]


THETA = Site("Theta", "theta", "traces/Theta-2018-01.swf.gz", 4_360, "capability", (1, 256, 512, 1_024, 2_048))
SDSC_SP2 = Site("SDSC-SP2", "sdsc-sp2", "traces/SDSC-SP2-1998-4.2-cln.swf.gz", 128, "capacity", (1, 2, 8, 32, 64))
SITES = {site.name: site for site in (THETA, SDSC_SP2)}


def trace_of(site: Site, asked: Asked) -> Workload:
    """Read a trace without jobs larger than the machine; raises `BadFileError` if it is missing or truncated."""
    path = asked.data / site.trace
    workload = read_workload(path).fitting(site.processors)
    days = float(workload.submit.max()) / DAY_S if len(workload) else 0.0
    if days < 3 * WEEK_DAYS:
        raise bad_file(path, f"holds {days:.0f} days of jobs, must hold at least three weeks")
    return workload


def jobsets_of(site: Site, kind: str, asked: Asked) -> tuple[Workload, ...]:
    """Return jobsets of a kind: all held-out days as one, or the synthetic weeks reserved for evaluations."""
    split = Split.of(trace_of(site, asked))
    if kind == SYNTHETIC:
        model = SyntheticModel.fitted(split.training(), site.processors)
        return tuple(model.span(seed, 0, EVALUATION_LOAD) for seed in EVALUATION_SEEDS[: asked.size(None, QUICK_WEEKS)])
    jobs = split.evaluation()
    if asked.is_quick:
        jobs = jobs.subset((jobs.submit < QUICK_WEEKS * WEEK_DAYS * DAY_S).nonzero()[0])
    return (jobs,)


Maker = Callable[[Site, int], ListScheduler | Scheduler]
"""Makes a scheduler for a site; the seed fixes its random choices."""

REFERENCE = "FCFS/B"
PAPER_RULES = (REFERENCE, "BinPacking", "Random", "Optimization")
AGENTS = {
    "Decima-PG": "decima-pg",
    "DRAS-DQL": "dras-dql",
    "DRAS-PG": "dras-pg",
    "DRAS-A2C": "dras-a2c",
    "DRAS-PPO": "dras-ppo",
}
"""Agents of the paper, and the names of their policies."""

LEADER = "DRAS-PPO"
CUSTOMIZED, GENERIC, STATIC = (f"{LEADER}, {how}" for how in ("customized", "generic", "static"))
"""Trained for the machine, trained on several others, and without learning in operation."""
GATED, UNGATED, PATIENT = (f"{LEADER}, dynamic, {how}" for how in ("gated", "ungated", "ungated, 8 weeks"))
"""With learning in operation: new weights are kept only if validation finds them better, or always.

The last one learns from the jobs of eight weeks.
"""
DYNAMIC: dict[str, dict[str, Any]] = {
    GATED: {},
    UNGATED: {"gated": False},
    PATIENT: {"gated": False, "memory_days": 56.0},
}
"""Options of the dynamic agents; by default they learn from the jobs of two weeks."""
RL_SCHEDULERS = {
    f"RLScheduler, {trace}": weights
    for trace, weights in (
        ("HPC2N", "hpc2n"),
        ("SDSC-SP2", "sdsc-sp2"),
        ("Lublin-1", "lublin-1"),
    )
}
"""Shipped weights of RLScheduler, by the trace of its training."""
PAPER_METHODS = (*PAPER_RULES, *AGENTS)


def _easy(order: QueueOrder) -> Maker:
    return lambda site, seed: ListScheduler(order, Backfill.EASY)


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
    "two-level, wfp3/sjf": lambda site, seed: TwoLevelOrders("wfp3", "sjf"),
    "two-level, unicep/sjf": lambda site, seed: TwoLevelOrders("unicep", "sjf"),
}
"""Methods without trainings of DRAS; those that are not in the paper come last; ``/B`` means EASY backfilling."""

METHODS = (*PAPER_METHODS, *(name for name in RULES if name not in PAPER_RULES))


def agent_of(method: str) -> str | None:
    """Return the policy of an agent's method, such as ``DRAS-PPO, generic``; None for a rule."""
    return AGENTS.get(method.split(", ")[0])


def trainings(folder: str, method: str, site: Site) -> list[Path]:
    """Return the weights of an agent's trainings in a folder, each in its own subfolder.

    They are trainings on only the trace of the site; for `GENERIC` they are trainings on several traces.
    """
    found = []
    for path in sorted(Path(folder).glob("*/weights.safetensors")) if folder else ():
        card = read_weights(path)[1]
        traces = str(card.settings["trace"]).split(",")
        is_own = len(traces) == 1 and traces[0].startswith(site.trace_name)
        if card.training == agent_of(method) and (len(traces) > 1 if method == GENERIC else is_own):
            found.append(path)
    return found


def weights_of(folder: str, method: str, site: Site) -> list[str]:
    """Return the weights of an agent's `trainings` in a folder; if there are none, the name of its shipped weights."""
    if found := trainings(folder, method, site):
        return [str(path) for path in found]
    shipped = "generic" if method == GENERIC else site.weights
    return [shipped] if shipped in shipped_weights(agent_of(method) or "") else []


def schedulers(method: str, site: Site, asked: Asked) -> list[ListScheduler | Scheduler]:
    """Return one scheduler per training of an agent, one per seed of a random method, otherwise a single one.

    The list is empty if an agent's weights are neither found nor shipped.
    """
    agent = agent_of(method)
    if method in RL_SCHEDULERS:
        return [RlScheduler(RL_SCHEDULERS[method])]
    if agent is None:
        return [RULES[method](site, seed) for seed in (asked.seeds if method == "Random" else asked.seeds[:1])]
    options = {"dynamic": True, **DYNAMIC[method]} if method in DYNAMIC else {}
    policies = [get_policy(agent, {"weights": one, **options}) for one in weights_of(asked.trained, method, site)]
    return [policy for policy in policies if isinstance(policy, ListScheduler | Scheduler)]


def present(methods: Sequence[str], site: Site, asked: Asked) -> list[str]:
    """Return the methods except agents without weights."""
    kernels = shipped_weights(RlScheduler.name)
    return [
        name
        for name in methods
        if (name not in RL_SCHEDULERS or RL_SCHEDULERS[name] in kernels)
        and (agent_of(name) is None or weights_of(asked.trained, name, site))
    ]
