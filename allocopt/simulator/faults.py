"""Faults of schedulers and models that are not ours: who did it, and when."""

from types import TracebackType

from allocopt.errors import AllocoptError


class SchedulerError(AllocoptError):
    """A scheduler, allocator or execution model that breaks a rule of the simulation, or raises; it is named."""


class Blame:
    """A context in which an exception that is not one of ours becomes a `SchedulerError` that names the culprit.

    Parameters
    ----------
    culprit
        Whose code runs inside, in words.
    when
        The time in seconds; None before the simulation begins.
    """

    __slots__ = ("_culprit", "_when")

    def __init__(self, culprit: str, when: float | None = None) -> None:
        self._culprit = culprit
        self._when = when

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Name the culprit of an error; what is not an error, such as an interrupt, goes on."""
        if isinstance(error, Exception) and not isinstance(error, AllocoptError):
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            when = "" if self._when is None else f" at time {self._when:g} s"
            raise SchedulerError(f"{self._culprit} raised {what}{when}") from error
