"""Policy ``cush``: a trained agent as a scheduler of simulations, which chooses jobs and how they are allocated."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.observation import n_features
from allocopt.envs.cush.task import Kinds, LiveEpisode, Options
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.locality import Policy, WorkloadType
from allocopt.simulator.scheduler import Decision, Start, Wait
from allocopt.simulator.view import View
from learned.cush.selectors import (
    FIXED,
    JOBS,
    POLICIES,
    Agent,
    FixedPolicies,
    LearnedPolicies,
    PolicySelector,
    idling_forbidden,
    parts_of,
)
from learned.rl.slots import SlotPolicy, pack_slots
from learned.weights import Card, find_weights, load_weights

GPUS = "gpus"  # The resource of a platform that policies are about


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a training wrote: parameters of both selectors by name, and how they came about."""

    weights: dict[str, Float32Array]
    card: Card

    @property
    def queue(self) -> int:
        """Slots of the queue that it was trained with."""
        return int(self.card.settings["queue"])

    @property
    def traits(self) -> int:
        """Traits of the jobs that it was trained with."""
        return int(self.weights[f"{JOBS}actor.0.weight"].shape[1]) - n_features(0)

    def agent(self) -> Agent:
        """Return what acts; each caller needs its own."""
        return Agent(SlotPolicy(pack_slots(parts_of(self.weights, JOBS))), self.policies())

    def policies(self) -> PolicySelector:
        """Return the policy selector, or what stood in its place."""
        how = str(self.card.settings["policies"])
        return FixedPolicies(how) if how in FIXED else LearnedPolicies(parts_of(self.weights, POLICIES))


def load_trained(weights: str) -> Trained:
    """Read an agent: one of `learned.weights.shipped_weights`, or a file that a training wrote.

    Raises `UsageError` if there is no such file, `BadFileError` if it is no such agent.
    """
    path = find_weights("cush", weights)
    trained = Trained(*load_weights(path, "cush"))
    if trained.card.network != "compact":
        raise BadFileError(f"{path}: its job selector is {trained.card.network!r}; only compact ones act without torch")
    try:
        trained.agent()
    except (ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"{path}: {error}") from None
    return trained


@dataclass(slots=True, eq=False)
class _Simulation:
    # As an agent sees it: jobs in the order of their arrival, the shorter first, times in timesteps.

    view: View
    live: LiveEpisode
    gpus: int  # Number of the platform's resource, 0 where there is none
    order: IntArray
    place: IntArray
    penalty: FloatArray
    chosen: IntArray


@dataclass(frozen=True, slots=True)
class Cush:
    """A trained agent, which decides at least once a timestep while something can start.

    A platform without GPUs has none that are asked for. Raises `UsageError` if an option is out of range or there are
    no such weights, `BadFileError` if they cannot be read.
    """

    # Machine that it was trained for, ``sierra`` or ``summit``, or a file that a training wrote
    weights: str = "sierra"
    timestep_s: float = 60.0  # Seconds of a timestep of its training: jobs took up to twenty
    # Whether it may do nothing though something could start. It has learned when that pays for jobs like those
    # of its training only: of other ones, some start whenever they fit without it.
    waits: bool = True
    # Waiting jobs among which it chooses, those that were submitted first; 0 for as many as in its training
    queue: int = 0
    kinds: Kinds | None = None  # What is known of the jobs of the workload, in its order; None for nothing
    policies: dict[str, Policy] = field(init=False, default_factory=dict, repr=False, compare=False)
    """What was chosen for the jobs that have started, by their numbers as text: for
    `allocopt.simulator.locality.ByPolicy` and `PenalisedByPolicy`."""
    _agent: Agent = field(init=False, repr=False, compare=False)
    _options: Options = field(init=False, repr=False, compare=False)
    _traits: int = field(init=False, repr=False, compare=False)
    _simulations: list[_Simulation] = field(init=False, default_factory=list, repr=False, compare=False)

    name: ClassVar[str] = "cush"

    def __post_init__(self) -> None:
        if not self.timestep_s > 0:
            raise UsageError(f"the timestep is {self.timestep_s} s, must be positive")
        if self.queue < 0:
            raise UsageError(f"the queue is {self.queue}, must not be negative")
        trained = load_trained(self.weights)
        object.__setattr__(self, "_agent", trained.agent())
        object.__setattr__(self, "_options", Options(self.queue or trained.queue))
        object.__setattr__(self, "_traits", trained.traits)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start jobs until the agent would rather wait or nothing fits."""
        if not self._simulations or self._simulations[0].view is not view:
            self.policies.clear()
            self._simulations[:] = [self._begun(view)]
        simulation = self._simulations[0]
        while len(view.queue):
            self._set(simulation)
            observations, legal = simulation.live.look()
            if not legal[0, :-1].any():
                return
            legal = idling_forbidden(legal, np.array([len(view.running) if self.waits else 0]))
            slot = int(self._agent.jobs.best(observations, legal)[0])
            if slot == self._options.queue:
                yield Wait((view.now // self.timestep_s + 1) * self.timestep_s)
                return
            job = int(simulation.order[simulation.live.slots()[slot]])
            described = simulation.live.described(slot)
            how = int(self._agent.policies.best(described, simulation.penalty[[job]])[0])
            simulation.chosen[job] = how
            self.policies[str(job)] = Policy(how)
            yield Start(job)

    def _set(self, simulation: _Simulation) -> None:
        view, place = simulation.view, simulation.place
        running = view.running
        penalty = simulation.penalty[running, simulation.chosen[running]]
        # By which timestep they end, as far as that is known; later than now in any case.
        known = np.ceil((view.expected_end[running] + penalty) / self.timestep_s - 1e-9)
        ends = np.maximum(known, view.now // self.timestep_s + 1).astype(np.int64)
        sooner = np.lexsort((place[running], ends))
        free = view.free[[0, simulation.gpus]] if simulation.gpus else np.array([view.free[0], 1])
        simulation.live.set(
            int(view.now // self.timestep_s), np.sort(place[view.queue]), place[running[sooner]], ends[sooner], free
        )

    def _begun(self, view: View) -> _Simulation:
        n = len(view.ids)
        kinds = self.kinds or self._unknown(n)
        if kinds.traits.shape != (n, self._traits) or kinds.penalty_s.shape != (n, len(Policy)):
            shapes, expected = (kinds.traits.shape, kinds.penalty_s.shape), ((n, self._traits), (n, len(Policy)))
            raise UsageError(f"kinds have shapes {shapes}, must have {expected} for these jobs and weights")
        names = view.platform.resources
        gpus = names.index(GPUS) if GPUS in names[1:] else 0
        asked = view.request[:, [0, gpus]] if gpus else np.stack([view.request[:, 0], np.zeros(n, dtype=np.int64)], 1)
        total = view.platform.total
        machine = Machine(1, int(total[0]), max(1, int(total[gpus]) if gpus else 1))
        arrival, length = (view.submit // self.timestep_s).astype(np.int64), view.estimate / self.timestep_s
        order = np.lexsort((length, arrival))
        service = np.maximum(length[:, None] + kinds.penalty_s / self.timestep_s, 1e-9)
        jobs = JobSet(arrival, length, asked, service, kinds.traits)
        live = LiveEpisode(jobs, machine, self._options)
        return _Simulation(view, live, gpus, order, np.argsort(order), kinds.penalty_s, np.zeros(n, dtype=np.int64))

    def _unknown(self, n: int) -> Kinds:
        traits = np.zeros((n, self._traits))
        if self._traits == len(WorkloadType):
            traits[:, WorkloadType.UNKNOWN] = 1.0
        return Kinds(traits, np.zeros((n, len(Policy))))
