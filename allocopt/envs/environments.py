"""Gymnasium environments of every task: one episode at a time, or many side by side."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast, get_args

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.side_by_side import STAY, SideBySide, whole_number
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload

E = TypeVar("E", bound=SideBySide[Any])
Seen = TypeVar("Seen")


class About(NamedTuple):
    """Documentation of a task, in Markdown; `docs/environments_page.py` makes a page of it."""

    title: str
    episode: str  # how an episode goes, and when it ends
    action: str  # what an action is
    mask: str  # which actions are legal, and what an illegal one does
    seen: str  # what an agent sees, with shapes and units
    meanings: dict[str, dict[str, str]]  # meaning of each observed number, in order, by the heading of its table
    # Either classes of rewards (the page shows their first lines), or one class of weights (it shows its parameters),
    # or, by the name of each reward, what the rewards of an episode add up to.
    rewards: tuple[type, ...] | dict[str, str]
    example: str = ""  # code that plays an episode


class Task(ABC, Generic[E, Seen]):
    """Checked arguments and spaces of an environment; each episode plays one of its jobsets.

    A subclass sets ``shape`` and ``n_actions``, or overrides the spaces. If ``jobsets`` is None, every seed draws new
    ones.
    """

    jobset_option: ClassVar[str] = "jobset"  # option of `reset` that takes the number of a jobset
    about: ClassVar["About"]  # text of `docs/environments.md` beside what is read from the classes
    most_seen: float = 1.0  # upper bound of an observation; the lower bound is 0
    shape: tuple[int, ...]  # shape of an observation
    n_actions: int

    def __init__(self, jobsets: Sequence[Any] | None) -> None:
        if jobsets is not None and not jobsets:
            raise UsageError("there are no jobsets; give at least one, or None to draw them")
        self.jobsets = jobsets

    @abstractmethod
    def episodes(self, count: int, rng: np.random.Generator) -> E:
        """Return episodes that have not begun; if no jobsets were given, the generator draws them."""

    def observation_space(self) -> gymnasium.Space[Any]:
        """Return the space of observations."""
        return Box(0.0, self.most_seen, self.shape, np.float32)

    def action_space(self) -> gymnasium.Space[Any]:
        """Return the space of actions."""
        return Discrete(self.n_actions)

    def look(self, episodes: E) -> tuple[Seen, BoolArray]:
        """Return observations and action masks; the first axis is the episode."""
        return episodes.observe()

    def step(self, episodes: E, actions: NDArray[Any], jobsets: IntArray | None) -> tuple[FloatArray, BoolArray]:
        """Carry out actions, or begin an episode where a jobset is given; see `SideBySide.step`."""
        return episodes.step(actions, jobsets)


class _Environment(Generic[E, Seen]):
    """Base of single and vector environments; after its end an episode has no legal action and shows zeros."""

    task: ClassVar[type[Task[Any, Any]]]  # the environment takes the arguments of this class

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "task" in vars(cls):
            given = inspect.signature(cls.task).parameters.values()
            own = [*inspect.signature(cls.__init__).parameters.values()][1:-2]
            cls.__signature__ = inspect.Signature([*own, *given])  # type: ignore[attr-defined]

    def _set_up(self, count: int, task: Task[E, Seen]) -> None:
        self._task = task
        # Report jobs that do not fit now, not at the first reset.
        self._episodes = None if task.jobsets is None else task.episodes(count, np.random.default_rng(0))
        self._mask: NDArray[np.int8] = np.empty((count, 0), dtype=np.int8)
        self._over: BoolArray | None = None

    @property
    def episodes(self) -> E:
        """The episodes with their full state; raises `UsageError` if none has begun."""
        if self._episodes is None or self._over is None:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes

    def _begin(
        self, count: int, rng: np.random.Generator, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Seen, dict[str, Any]]:
        if self._episodes is None or (self._task.jobsets is None and seed is not None):
            self._episodes = self._task.episodes(count, rng)
        if seed is not None or self._over is None:
            self._episodes.seed(rng)
        # Always draw, so that the next reset draws the same jobsets whether or not the options name some now.
        jobsets, name = rng.integers(0, self._episodes.n_jobsets, count), self._task.jobset_option
        if options is not None and not isinstance(options, Mapping):
            raise UsageError(f"reset got options={options!r}, must be a dictionary or None")
        if unknown := [option for option in options or () if option != name]:
            raise UsageError(f"reset has no option {unknown[0]!r}; its only option is {name!r}")
        if options is not None and name in options:
            named = np.asarray(options[name], dtype=object).ravel()
            if len(named) not in (1, count):
                raise UsageError(f"there are {len(named)} {name}s for {count} episodes; give 1 or {count}")
            jobsets[:] = [whole_number(name, number, 0, self._episodes.n_jobsets - 1) for number in named]
        self._episodes.begin(jobsets)
        self._over = np.zeros(count, dtype=np.bool_)
        seen = self._look(self._episodes, self._over)
        return seen, {"action_mask": self._mask, **self._episodes.told()}

    def _look(self, episodes: E, over: BoolArray) -> Seen:
        seen, legal = self._task.look(episodes)
        # With one environment, `any` would take a tenth of the time of a step.
        if over[0] if len(over) == 1 else over.any():
            legal = legal & ~over[:, np.newaxis]
        # The arrays are new in every step, so that callers may keep them.
        self._over, self._mask = over, legal.view(np.int8)
        return seen


class _SingleEnv(_Environment[E, Seen], gymnasium.Env[Seen, Any], Generic[E, Seen]):
    """An environment of one episode at a time, with the arguments of its task."""

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._set_up(1, self.task(*args, **kwargs))
        self.observation_space: gymnasium.Space[Any] = self._task.observation_space()
        self.action_space: gymnasium.Space[Any] = self._task.action_space()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode; the option ``jobset`` (``offset`` in batch scheduling) selects its jobset.

        Raises `UsageError` if there is no such jobset.
        """
        super().reset(seed=seed)
        seen, info = self._begin(1, self.np_random, seed, options)
        return _first(seen), {name: _plain(values[0]) for name, values in info.items()}

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Carry out an action; episodes are never truncated.

        The dictionary holds the ``action_mask``, whether the action was illegal (``invalid_action``), and at the end
        the metrics of the episode. Raises `UsageError` if there is no such action, or if the episode has not begun or
        is over.
        """
        episodes = self.episodes
        if self._over is not None and self._over[0]:
            raise UsageError("the episode is over; call reset first")
        rewards, ended = self._task.step(episodes, np.array([action]), None)
        seen, over = self._look(episodes, ended), bool(ended[0])
        info: dict[str, Any] = {"action_mask": self._mask[0], "invalid_action": bool(episodes.invalid[0])}
        if told := episodes.told():
            info |= {name: _plain(values[0]) for name, values in told.items()}
        if over:
            info |= {name: float(values[0]) for name, values in episodes.metrics().items()}
        return _first(seen), float(rewards[0]), over, False, info

    def action_masks(self) -> BoolArray:
        """Return the ``action_mask`` as booleans; sb3-contrib calls this method."""
        return cast(BoolArray, self._mask[0].astype(np.bool_))


class _VectorEnv(_Environment[E, Seen], VectorEnv[Seen, Any, NDArray[Any]], Generic[E, Seen]):
    """Independent environments, stepped together; they take ``num_envs``, at least 1, and the arguments of their task.

    The step after the last one of an episode ignores its action and begins a new episode, with a reward of 0.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(self, num_envs: int = 1, *args: Any, **kwargs: Any) -> None:
        self.num_envs = whole_number("number of environments", num_envs, 1)
        self._set_up(num_envs, self.task(*args, **kwargs))
        self.single_observation_space = self._task.observation_space()
        self.single_action_space = self._task.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode in every environment.

        The option ``jobset`` (``offset`` in batch scheduling) takes one number for all, or one per environment.
        """
        super().reset(seed=seed)
        return self._begin(self.num_envs, self.np_random, seed, options)

    def step(self, actions: NDArray[Any]) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Carry out an action in every environment; if its episode is over, begin a new one instead.

        Metrics exist only at the end of an episode; ``_NAME`` flags the environments where metric ``NAME`` is valid.
        """
        episodes, begins, jobsets = self.episodes, self._over, None
        if begins is not None and begins.any():
            jobsets = np.full(self.num_envs, STAY)
            jobsets[begins] = self.np_random.integers(0, episodes.n_jobsets, int(begins.sum()))
        rewards, over = self._task.step(episodes, actions, jobsets)
        seen = self._look(episodes, over)
        info: dict[str, Any] = {"action_mask": self._mask, **episodes.told()}
        info["invalid_action"] = episodes.invalid > 0
        if over.any():
            for name, values in episodes.metrics().items():
                info[name], info[f"_{name}"] = np.where(over, values, 0.0), over.copy()
        return seen, rewards, over.copy(), np.zeros(self.num_envs, dtype=np.bool_), info

    def action_masks(self) -> BoolArray:
        """Return the ``action_mask`` of each environment as booleans."""
        return self._mask.astype(np.bool_)


def environments_of(task: type[Task[E, Seen]]) -> tuple[type[_SingleEnv[E, Seen]], type[_VectorEnv[E, Seen]]]:
    """Return the environment classes of a task, ``TASKEnv`` and ``TASKVectorEnv`` of its module."""
    name, attributes = task.__name__, {"task": task, "__module__": task.__module__}
    # `help` on an environment has to list the arguments of `gymnasium.make`, which are those of the task.
    arguments = inspect.cleandoc(task.__doc__ or "").partition("Parameters\n---")
    listed = "\n\n" + "".join(arguments[1:])
    single = {**attributes, "__doc__": f"One episode of `{name}` at a time.{listed}"}
    vector = {**attributes, "__doc__": f"Many episodes of `{name}` side by side.{listed}"}
    return type(f"{name}Env", (_SingleEnv,), single), type(f"{name}VectorEnv", (_VectorEnv,), vector)


def check_type(name: str, value: object, right: type | UnionType) -> None:
    """Raise `UsageError`, which names the argument, unless its value is an instance of a class or union."""
    if not isinstance(value, right):
        known = " or ".join(f"{each.__name__}(...)" for each in get_args(right) or (right,))
        raise UsageError(f"{name} is {value!r}, must be {known}")


def check_sizes(jobs: Workload, machine: int, units: str) -> None:
    """Raise `UsageError` if a job asks for more nodes or processors than the machine has."""
    large = jobs.processors > machine
    if large.any():
        job = int(np.argmax(large))
        fault = f"asks for {jobs.processors[job]} {units} of {machine}"
        raise UsageError(f"job {jobs.ids[job]} of {jobs.name} {fault}; drop such jobs with Workload.fitting")


def _first(seen: Any) -> Any:
    return {name: values[0] for name, values in seen.items()} if isinstance(seen, dict) else seen[0]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
