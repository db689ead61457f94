"""Declarations of trainings, and the loop that they share; needs torch only while something is trained."""

import csv
import io
import pickle
import struct
import time
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.errors import BadFileError, MissingPackageError, UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.writing import write_bytes, write_text
from allocopt.interruption import interruption_held
from allocopt.learned.rl.workers import ALONE, Learner, Workers
from allocopt.learned.weights import Card, write_weights
from allocopt.report.plot import Figure, smoothed
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__

NAME = "checkpoint.pt"
BETWEEN_CHECKPOINTS_S = 30.0
NOT_TENSORS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError),
)
"""Exceptions that archives and torch raise if the bytes are not a file of tensors."""


SPENT: Mapping[str, Callable[[], float]] = {"seconds": time.monotonic, "processor_s": time.process_time}
"""Columns of a curve with the seconds that the training has taken: wall clock, and processor time of this process."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Measures the seconds that a training has taken, by the names of `SPENT`."""

    offsets: Mapping[str, float]  # Reading of each clock at which the training has taken 0 s

    @classmethod
    def after(cls, rows: Sequence[Mapping[str, float]]) -> "_Clock":
        """Return the clock of a training whose curve has these rows so far."""
        before = rows[-1] if rows else {}
        return cls({name: clock() - before.get(name, 0.0) for name, clock in SPENT.items()})

    def spent(self) -> dict[str, float]:
        """Return the seconds taken so far, rounded to milliseconds."""
        return {name: round(clock() - self.offsets[name], 3) for name, clock in SPENT.items()}


def _run_updates(
    learner: Learner, total: int, request: TrainingRequest, identity: dict[str, Any], workers: Workers = ALONE
) -> Iterator[TrainingProgress]:
    """Make the remaining updates, and yield after each; the caller has checked the folder and writes the weights.

    A checkpoint belongs to this training if it has the same ``identity``. Raises the errors of `_read_checkpoint`,
    `UsageError` if another worker has died, and `KeyboardInterrupt`, after which the training can be resumed.
    """
    rows: list[dict[str, float]] = []
    if request.resumes:
        state = _read_checkpoint(request.folder, identity)
        try:
            learner.restore(state["learner"])
            rows = list(state["rows"])
            # A checkpoint is written only after an update, so there must be a row.
            float(rows[-1]["seconds"])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            raise _damaged(request.folder / NAME) from None
    started = saved = time.monotonic()
    clock = _Clock.after(rows)
    if len(rows) == total:
        # The training may have crashed between the last checkpoint and the weights, which the caller writes.
        measures = {name: value for name, value in rows[-1].items() if name not in ("update", *SPENT)}
        yield TrainingProgress(total, total, measures)
    while len(rows) < total:
        with interruption_held() as interrupted:
            measures = learner.update(len(rows) / total)
        now = time.monotonic()
        rows.append({"update": float(len(rows) + 1), **clock.spent(), **measures})
        is_late = request.minutes is not None and now - started >= 60 * request.minutes
        # Write a checkpoint after the first update, too, so that an early interruption loses little.
        is_due = now - saved >= BETWEEN_CHECKPOINTS_S or len(rows) == 1
        is_late, stops, is_due = workers.any_of(is_late, interrupted(), is_due)
        if is_due or len(rows) == total or is_late or stops:
            snapshot = learner.snapshot()
            if workers.is_leader:
                _write_checkpoint(request.folder, identity, {"learner": snapshot, "rows": rows})
                _write_curve(request.folder, rows, str(identity["title"]))
            saved = now
        if stops:
            raise KeyboardInterrupt(f"{request.folder}: continue with --resume")
        yield TrainingProgress(len(rows), total, measures)
        if is_late:
            return


def _write_checkpoint(folder: Path, identity: dict[str, Any], state: dict[str, Any]) -> None:
    import torch

    buffer = io.BytesIO()
    torch.save({"identity": identity, "state": _tensors(state)}, buffer)
    write_bytes(folder / NAME, buffer.getvalue())


def _read_checkpoint(folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Read a state; raises `UsageError` if it belongs to another training, `BadFileError` if it cannot be read."""
    import torch

    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise bad_file(path, f"cannot be read: {os_fault(error)}") from None
    try:
        # Torch does not verify checksums.
        is_whole = zipfile.ZipFile(io.BytesIO(data)).testzip() is None
        held = torch.load(io.BytesIO(data), weights_only=True) if is_whole else None
    except NOT_TENSORS:
        raise _damaged(path) from None
    match held:
        case {"identity": dict(known), "state": dict(state)}:
            for name, value in identity.items():
                if known.get(name) != value:
                    raise UsageError(f"{path} belongs to a training with {name} {known.get(name)!r}, must be {value!r}")
            return {name: _arrays(part) for name, part in state.items()}
    raise _damaged(path)


def _write_curve(folder: Path, rows: Sequence[Mapping[str, float]], title: str) -> None:
    """Write ``curve.csv`` with all columns, and, with `allocopt[plot]`, ``curve.svg`` with the smoothed returns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "curve.csv", text.getvalue())
    samples, returns = (np.array([row[name] for row in rows]) for name in ("samples", "mean_return"))
    lines = {"mean_return": (samples, smoothed(returns, 0.02))}
    # Without the package for plots the training continues.
    with suppress(MissingPackageError):
        Figure.of_lines(title, "samples", "mean_return", lines).write(folder / "curve.svg")


def _damaged(path: Path) -> BadFileError:
    return bad_file(path, "is damaged, or not a checkpoint of this training; start again in another folder")


def _tensors(value: Any) -> Any:
    # Store arrays as marked tensors, because files of tensors can be read without running code.
    if isinstance(value, np.ndarray):
        import torch

        return {"array": torch.from_numpy(value.copy())}
    if isinstance(value, dict):
        return {name: _tensors(item) for name, item in value.items()}
    return [_tensors(item) for item in value] if isinstance(value, list | tuple) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["array"]:
            return value["array"].numpy()
        return {name: _arrays(item) for name, item in value.items()}
    return [_arrays(item) for item in value] if isinstance(value, list) else value


L = TypeVar("L", bound="Learner")
T = TypeVar("T")
RESERVED = {11: "instances/paper.jsonl", 12: "instances/repo.jsonl", 13: "instances/burst.jsonl"}
"""Seeds of the shipped windows, as `instances/generate.sh` passes them to ``allocopt generate``."""
LARGEST_SEED = 2**63 - 1  # Largest seed that all random number generators accept, including torch's


def check_torch() -> None:
    """Raise `MissingPackageError` without torch."""
    if find_spec("torch") is None:
        raise MissingPackageError.of("training needs", "torch", extra="train")


def option(default: T, least: float | None = None, most: float | None = None, among: Collection[T] | None = None) -> T:
    """Declare an option of a `DeclaredTraining` with a range or a set of values."""
    return field(default=default, metadata={"least": least, "most": most, "among": among})


Trained = tuple[str, Mapping[str, Float32Array], dict[str, Any]]
"""Result of a training: name of the architecture, weights, and entries of the card besides the settings."""


@dataclass(frozen=True)
class DeclaredTraining(ABC, Generic[L]):
    """A training whose fields are its options; they are checked on creation; see `allocopt.training.Training`."""

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ()  # Options that are files; the card omits their folders
    renamed_options: ClassVar[Mapping[str, str]] = {}  # Current names of options, by their former names

    def __post_init__(self) -> None:
        for declared in fields(self):
            if not declared.metadata:
                continue
            name, value = declared.name, getattr(self, declared.name)
            least, most, among = (declared.metadata[limit] for limit in ("least", "most", "among"))
            if among is not None and value not in among:
                raise UsageError(f"{name} is {value!r}, must be one of {', '.join(among)}")
            if least is not None and most is not None and not least <= value <= most:
                raise UsageError(f"{name} is {value}, must be within {least:,} .. {most:,}")
            if least is not None and not value >= least:
                fault = "must not be negative" if least == 0 else f"must be at least {least:g}"
                raise UsageError(f"{name} is {value}, {fault}")

    @property
    def label(self) -> str:
        """Name and variant, suitable as the name of a folder."""
        return self.name

    @property
    @abstractmethod
    def n_updates(self) -> int:
        """Number of updates."""

    def trained(self, seed: int) -> tuple[L, list[dict[str, float]]]:
        """Train in memory without writing files; return the learner and the measures after each update."""
        learner = self.learner(seed)
        return learner, [learner.update(done / self.n_updates) for done in range(self.n_updates)]

    def learner(self, seed: int, workers: Workers = ALONE) -> L:
        """Return the learner before its first update."""
        check_torch()
        import torch

        torch.set_num_threads(1)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self._learner(seed, workers)

    @abstractmethod
    def _learner(self, seed: int, workers: Workers) -> L:
        # Torch's generator has been seeded before this call.
        ...

    @abstractmethod
    def result(self, learner: L) -> Trained:
        """Return the result after all updates."""

    def remarks(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        """Return remarks on the result, one per line; ``told`` are the entries of the card that `result` returned."""
        return ()

    def card_settings(self) -> dict[str, Any]:
        """Return all settings by name, for the card."""
        return asdict(self)

    def check_seed(self, seed: int) -> None:
        """Raise `UsageError` if the seed is out of range, or if it would draw the windows of evaluations."""
        if not 0 <= seed <= LARGEST_SEED:
            raise UsageError(f"the seed is {seed}, must be within 0 .. {LARGEST_SEED}")
        if seed in RESERVED:
            raise UsageError(
                f"seed {seed} is reserved for evaluation, as it draws the windows of {RESERVED[seed]}; take another"
            )

    def workers(self) -> AbstractContextManager[Workers]:
        """Join the processes that train together."""
        return nullcontext(ALONE)

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`. If there are several workers, only the first one yields."""
        self.check_seed(request.seed)
        check_torch()
        from allocopt.report.provenance import provenance

        request.check_folder(NAME)
        # Record the commit now, because the program on disk may change during the training.
        begun_at = provenance()["commit"]
        with self.workers() as workers:
            learner = self.learner(request.seed, workers)
            asked = {**self.card_settings(), **asdict(self), "updates": self.n_updates}
            identity = {"title": self.label, "seed": request.seed, **asked, "workers": workers.count}
            for progress in _run_updates(learner, self.n_updates, request, identity, workers):
                if workers.is_leader:
                    if progress.done == progress.total:
                        network, weights, told = self.result(learner)
                        about = self.name, network, request.seed, self.n_updates, __version__, begun_at, request.command
                        settings = self.card_settings()
                        for name in self.paths:
                            settings[name] = ",".join(Path(path).name for path in settings[name].split(","))
                        card = Card(*about, {**settings, **told})
                        write_weights(request.folder / "weights.safetensors", weights, card)
                        progress = replace(progress, remarks=self.remarks(told))
                    yield progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of all algorithms, with the names of Stable-Baselines3."""

    n_steps: int = 16  # Steps of every environment between two updates
    learning_rate: float = 1e-3  # Learning rate of Adam at the start; it falls linearly to a twentieth at the end
    gamma: float = 1.0  # Discount of rewards, per step
    max_grad_norm: float = 0.5  # Norm at which gradients are clipped


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSettings(Settings):
    """Settings of the policy gradient without a critic; ``ent_coef`` is the weight of the policy's entropy."""

    ent_coef: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class A2cSettings(Settings):
    """Settings of A2C: one gradient step per update."""

    # Weights of the policy's entropy, and of the critic's squared error
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    gae_lambda: float = 1.0  # Decay of the generalized advantage estimate; 1 for sums of rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings(A2cSettings):
    """Settings of PPO."""

    learning_rate: float = 1.5e-3
    gae_lambda: float = 0.95
    # Passes over the steps of an update; if steps are cheap, new ones teach more than a second pass
    n_epochs: int = 1
    batch_size: int = 512  # Samples of one gradient step
    clip_range: float = 0.2  # Distance from 1 at which the ratio of new to old probability is clipped
    final_ent_coef: float = 0.005  # Weight of the entropy at the end; it changes linearly


@dataclass(frozen=True, slots=True, kw_only=True)
class DqlSettings(Settings):
    """Settings of deep Q-learning; the probability of a random action is multiplied by a decay at every update."""

    exploration_initial_eps: float = 1.0
    exploration_decay: float = 0.995
    exploration_final_eps: float = 0.0
