"""Agents of CuSH, which act without torch: both selectors (sections 3.2, 3.3), and the scheduler ``cush``.

The paper's job selector is a convolution over the image, with an output for every choice. The compact one sees the
features of one choice at a time, so that its size depends neither on the machine nor on the queue.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.dynamics import FIRST_TRAIT
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import N_NUMBERS, CushEpisodes, CushOptions, DynamicTypes
from allocopt.errors import UsageError
from allocopt.learned.rl.slots import SlotPolicy
from allocopt.learned.rl.workers import Workers
from allocopt.learned.weights import Card, Weights, check_shapes, dense_layers, find_weights, load_weights, relu
from allocopt.simulator.decisions import Decision, Start, Wait
from allocopt.simulator.locality import Policy, WorkloadType
from allocopt.simulator.state import FREE, NOBODY, RUNNING
from allocopt.simulator.view import View

JOBS, POLICIES = "jobs.", "policies."  # Prefixes of the parameters' names when both networks are in one file
LEARNED, ORACLE = "learned", "oracle"
FIXED = (*(policy.label for policy in Policy), ORACLE)
"""Rules that may replace the policy selector: one policy for all jobs, or the better one for each job."""
SIDE = 2  # Side length of the filters of the paper's job selector
HIDDEN = 10
GPUS = "gpus"  # Resource of a platform for which policies choose the nodes


def parts_of(weights: Mapping[str, Float32Array], prefix: str) -> dict[str, Float32Array]:
    """Return the parameters of one of the selectors."""
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


class JobSelector(Protocol):
    """Chooses a slot, or to do nothing, in many episodes at once; `allocopt.learned.rl.slots.SlotPolicy` is one."""

    def choose(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray | None = None) -> IntArray:
        """Return the most probable choices, or draw them by ``uniform`` random numbers, shape ``(E,)``."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicySelector:
    """A policy selector's network, or a rule in its place; raises ValueError if a parameter has a wrong shape."""

    how: str = LEARNED  # ``learned``, or one of `FIXED`
    weights: Weights = field(default_factory=dict)  # Parameters of the network

    def __post_init__(self) -> None:
        if self.how == LEARNED:
            inputs = self.weights["0.weight"].shape[-1] if "0.weight" in self.weights else N_NUMBERS
            first = {"0.weight": (HIDDEN, inputs), "0.bias": (HIDDEN,)}
            check_shapes({**first, "2.weight": (len(Policy), HIDDEN), "2.bias": (len(Policy),)}, self.weights)

    def choose(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray | None = None) -> IntArray:
        """Return the most probable policies of n jobs, or draw them by ``uniform`` random numbers, shape ``(n,)``.

        ``described`` has shape ``(n, inputs)``. ``penalties`` has the penalty under each `Policy`, shape ``(n, 2)``;
        only the oracle uses them.
        """
        if self.how == ORACLE:
            return np.asarray(penalties.argmin(axis=1), dtype=np.int64)
        if self.how != LEARNED:
            return np.full(len(described), FIXED.index(self.how), dtype=np.int64)
        logits = dense_layers(self.weights, described, relu)
        if uniform is None:
            return np.asarray(logits.argmax(axis=1), dtype=np.int64)
        first = 1.0 / (1.0 + np.exp(np.clip(np.diff(logits.astype(np.float64))[:, 0], -60.0, 60.0)))
        return np.asarray((uniform >= first).astype(np.int64))


class _Choice(NamedTuple):
    # Observations and choices of an agent in E episodes, and the n jobs that are about to start.
    observations: Float32Array
    legal: BoolArray
    slots: IntArray  # Shape ``(E,)``
    policies: IntArray  # Shape ``(E,)``
    # Episodes in which jobs start, in ascending order; numbers of these jobs in the jobsets; their `Policy`; each of
    # shape ``(n,)``
    episodes: IntArray
    jobs: IntArray
    how: IntArray
    described: Float32Array  # Input of the policy selector for these jobs, shape ``(n, inputs)``
    penalties: FloatArray  # Penalty under each `Policy`, shape ``(n, 2)``


@dataclass(frozen=True, slots=True)
class Agent:
    """A job selector and a policy selector."""

    jobs: JobSelector
    policies: PolicySelector

    def choose(self, episodes: CushEpisodes, over: BoolArray, uniform: FloatArray | None = None) -> _Choice:
        """Return the best choices in all episodes, or draw them by ``uniform`` random numbers, shape ``(2, E)``."""
        observations, legal = episodes.observe()
        legal = _idling_forbidden(legal, episodes.running)
        slots = self.jobs.choose(observations, legal, None if uniform is None else uniform[0])
        starting = np.flatnonzero((slots < episodes.options.queue) & ~over)
        places = starting, slots[starting]
        told = episodes.descriptions()[places], episodes.penalties()[places]
        how = self.policies.choose(*told, None if uniform is None else uniform[1][starting])
        policies = np.zeros(len(slots), dtype=np.int64)
        policies[starting] = how
        jobs = episodes.jobs()[places]
        return _Choice(observations, legal, slots, policies, starting, jobs, how, *told)

    def run(self, episodes: CushEpisodes, types: DynamicTypes | None = None) -> None:
        """Play an episode of every jobset to its end by the best choices; with ``types``, play the one they began."""
        if types is None:
            episodes.begin(np.arange(len(episodes.jobsets)))
        over = np.zeros(episodes.n_environments, dtype=np.bool_)
        while not over.all():
            choice = self.choose(episodes, over)
            over = episodes.step(choice.slots, choice.policies)[1]
            if types is not None:
                types.look()


MEANS = ("turnaround", "wait", "rewards", "penalty")  # Metrics of episodes that are reported with the score


def _idling_forbidden(legal: BoolArray, running: IntArray) -> BoolArray:
    # Doing nothing is legal only while a job runs or no job can start: otherwise an agent might wait for ever.
    allowed = legal.copy()
    allowed[:, -1] = (running > 0) | ~legal[:, :-1].any(axis=1)
    return allowed


class Validator:
    """Validates both selectors on jobsets that they were not trained on; each of P workers plays every P-th jobset."""

    def __init__(self, jobsets: Sequence[JobSet], machine: Machine, options: CushOptions, workers: Workers) -> None:
        own = jobsets[workers.rank :: workers.count]
        self._episodes = CushEpisodes(own, machine, len(own), options) if own else None

    def measures(self, agent: Agent, workers: Workers) -> dict[str, float]:
        """Return means over the jobsets: ``score`` (NTAT), `MEANS`, and the share of jobs with the better policy."""
        sums = np.zeros(3 + len(MEANS))
        episodes = self._episodes
        if episodes is not None:
            agent.run(episodes)
            metrics, n = episodes.metrics(), len(episodes.jobsets)
            sums[:2] = n, n * episodes.right_share()
            sums[2:] = [metrics[name].sum() for name in ("normalized_turnaround", *MEANS)]
        count, right, score, *means = workers.total(sums).tolist()
        named = {f"validated_{name}": mean / count for name, mean in zip(MEANS, means, strict=True)}
        return {"score": score / count, "right_policies": right / count, **named}


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Parameters of both selectors by name, and the card of their training."""

    weights: dict[str, Float32Array]
    card: Card

    @classmethod
    def load(cls, weights: str) -> "Trained":
        """Read a shipped agent, or one from a file; raises `UsageError` if there is none, `BadFileError` if broken."""
        return load_weights(find_weights("cush", weights), "cush", cls.of)

    @classmethod
    def of(cls, weights: dict[str, Float32Array], card: Card) -> "Trained":
        """Make an agent of weights and their card; raises ValueError if that is not possible."""
        if card.network != "compact":
            raise ValueError(f"its job selector is {card.network!r}; only compact selectors act without torch")
        trained = cls(weights, card)
        trained.agent()
        return trained

    @property
    def queue(self) -> int:
        """Number of queue slots in its training."""
        return int(self.card.settings["queue"])

    @property
    def traits(self) -> int:
        """Number of traits of a job in its training."""
        return int(self.weights[f"{JOBS}actor.0.weight"].shape[1]) - FIRST_TRAIT

    def agent(self) -> Agent:
        """Return a new agent; each caller needs its own, because an agent has scratch space."""
        return Agent(SlotPolicy.of(parts_of(self.weights, JOBS)), self.policies())

    def policies(self) -> PolicySelector:
        """Return the policy selector, or the rule in its place."""
        how = str(self.card.settings["policies"])
        return PolicySelector(how if how in FIXED else LEARNED, parts_of(self.weights, POLICIES))


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Traits of the jobs of a workload for the policy selector, and the cost of their placement."""

    traits: FloatArray  # Description of each job's kind, shape ``(n, K)``, as in `JobSet`
    penalty_s: FloatArray  # Seconds that each job takes longer under each `Policy`, shape ``(n, 2)``


class _Simulation(NamedTuple):
    # A simulation as an agent sees it: jobs sorted by arrival, then by length; times in timesteps.
    view: View
    episodes: CushEpisodes  # A single episode; its state is copied from the view, it is never stepped
    episode: Any  # Arrays of this episode
    gpus: int  # Index of the GPUs among the platform's resources, 0 if it has none
    order: IntArray
    place: IntArray
    penalty: FloatArray
    chosen: IntArray


@dataclass(frozen=True, slots=True)
class Cush:
    """A trained agent, which decides at least once a timestep while a job can start.

    On a platform without GPUs, requests for GPUs are ignored. Raises `UsageError` if an option is out of range or there
    are no such weights, `BadFileError` if they cannot be read.
    """

    # Machine for which it was trained, ``sierra`` or ``summit``, or a file that a training wrote
    weights: str = "sierra"
    timestep_s: float = 60.0  # Seconds per timestep; jobs of its training take up to twenty timesteps
    # Whether it may do nothing although a job could start. It has learned when this pays, but only for jobs like those
    # of its training. If False, it starts a job whenever one fits.
    waits: bool = True
    # It chooses among this number of waiting jobs, those submitted first; 0 for the number in its training
    queue: int = 0
    kinds: Kinds | None = None  # Types and penalties of the jobs of the workload, in its order; None if unknown
    policies: dict[str, Policy] = field(init=False, default_factory=dict, repr=False, compare=False)
    """Policy of each started job, by its number as text, for `allocopt.simulator.locality.ByPolicy` and `Penalised`."""
    _agent: Agent = field(init=False, repr=False, compare=False)
    _options: CushOptions = field(init=False, repr=False, compare=False)
    _traits: int = field(init=False, repr=False, compare=False)
    _simulations: list[_Simulation] = field(init=False, default_factory=list, repr=False, compare=False)

    name: ClassVar[str] = "cush"

    def __post_init__(self) -> None:
        if not self.timestep_s > 0:
            raise UsageError(f"the timestep is {self.timestep_s} s, must be positive")
        if self.queue < 0:
            raise UsageError(f"the queue is {self.queue}, must not be negative")
        trained = Trained.load(self.weights)
        object.__setattr__(self, "_agent", trained.agent())
        object.__setattr__(self, "_options", CushOptions(self.queue or trained.queue))
        object.__setattr__(self, "_traits", trained.traits)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start jobs until the agent would rather wait or nothing fits."""
        if not self._simulations or self._simulations[0].view is not view:
            self.policies.clear()
            n = len(view.ids)
            unknown = np.zeros((n, self._traits))
            if self._traits == len(WorkloadType):
                unknown[:, WorkloadType.UNKNOWN] = 1.0
            kinds = self.kinds or Kinds(unknown, np.zeros((n, len(Policy))))
            if kinds.traits.shape != (n, self._traits) or kinds.penalty_s.shape != (n, len(Policy)):
                shapes, expected = (kinds.traits.shape, kinds.penalty_s.shape), ((n, self._traits), (n, len(Policy)))
                raise UsageError(f"kinds have shapes {shapes}, must have {expected} for these jobs and weights")
            names, total = view.platform.resources, view.platform.total
            gpus = names.index(GPUS) if GPUS in names[1:] else 0
            asked: IntArray = view.request[:, [0, gpus]] * np.array([1, int(gpus > 0)])
            # A job that asks for neither of the two resources counts as if it asked for one unit of the first.
            asked[:, 0] += asked.sum(axis=1) == 0
            machine = Machine(1, int(total[0]), max(1, int(total[gpus])) if gpus else 1)
            arrival, length = (view.submit // self.timestep_s).astype(np.int64), view.estimate / self.timestep_s
            order = np.lexsort((length, arrival))
            service = np.maximum(length[:, None] + kinds.penalty_s / self.timestep_s, 1e-9)
            episodes = CushEpisodes([JobSet(arrival, length, asked, service, kinds.traits)], machine, 1, self._options)
            arrays, chosen = episodes.arrays(0), np.zeros(n, dtype=np.int64)
            begun = _Simulation(view, episodes, arrays, gpus, order, np.argsort(order), kinds.penalty_s, chosen)
            self._simulations[:] = [begun]
        simulation = self._simulations[0]
        while len(view.queue):
            place, running, episode = simulation.place, view.running, simulation.episode
            penalty = simulation.penalty[running, simulation.chosen[running]]
            # Expected last timestep of each running job; always later than now.
            known = np.ceil((view.expected_end[running] + penalty) / self.timestep_s - 1e-9)
            ends = np.maximum(known, view.now // self.timestep_s + 1).astype(np.int64)
            sooner = np.lexsort((place[running], ends))
            # The slots of the episode get the first waiting jobs; its running jobs are sorted by their ends.
            waiting, run = np.sort(place[view.queue]), place[running[sooner]]
            shown = waiting[: episode.slots.size]
            episode.slots[:] = NOBODY
            episode.slots[: len(shown)] = shown
            episode.tally["over"][:] = 0
            state, clock = episode.state, episode.state.clock
            state.lists[RUNNING, : len(run)] = run
            state.jobs["expected_end"][run] = ends[sooner]
            state.units[FREE] = view.free[[0, simulation.gpus]] if simulation.gpus else np.array([view.free[0], 1])
            clock["now"][:] = int(view.now // self.timestep_s)
            clock["n_running"][:], clock["n_queued"][:] = len(run), len(waiting) - len(shown)
            observations, legal = simulation.episodes.observe()
            fits = view.fitting(simulation.order[simulation.episodes.jobs()[0, : len(shown)]])
            legal[0, : len(shown)] &= fits
            if not legal[0, :-1].any():
                return
            legal = _idling_forbidden(legal, np.array([len(view.running) if self.waits else 0]))
            slot = int(self._agent.jobs.choose(observations, legal)[0])
            if slot == self._options.queue:
                yield Wait((view.now // self.timestep_s + 1) * self.timestep_s)
                return
            job = int(simulation.order[simulation.episodes.jobs()[0, slot]])
            described = simulation.episodes.descriptions()[:, slot]
            how = int(self._agent.policies.choose(described, simulation.penalty[[job]])[0])
            simulation.chosen[job] = how
            self.policies[str(job)] = Policy(how)
            yield Start(job)
