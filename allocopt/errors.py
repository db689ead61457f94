"""Errors meant for people, each with the exit code the command line answers with."""


class AllocoptError(Exception):
    """Base of all errors that the package raises on purpose."""

    exit_code = 1


class UsageError(AllocoptError, ValueError):
    """A request that cannot be served as asked: an unknown solver, an unsupported strategy, a window too large."""

    exit_code = 2


class InvalidProblemError(AllocoptError, ValueError):
    """A problem whose data contradict each other, at a place in the words of its file, such as ``jobs[2].nodes``."""

    exit_code = 3

    def __init__(self, place: str, fault: str) -> None:
        super().__init__(f"{place}: {fault}")
        self.place = place
        self.fault = fault


class InvalidSolutionError(AllocoptError, ValueError):
    """A solution that breaks a rule of its problem, or whose objective is not the one it states."""

    exit_code = 3


class WrongAnswerError(InvalidSolutionError):
    """A solver's own answer that its problem refutes: a bug of the solver."""

    exit_code = 1


class BadFileError(AllocoptError, ValueError):
    """A file that cannot be read or written: one line that names the file, the place and the fault."""

    exit_code = 3


class NoSolutionError(AllocoptError):
    """No solution was found within the limit."""

    exit_code = 4


class PluginError(AllocoptError):
    """A part, such as a solver of another package, that cannot be loaded, raises or breaks a rule."""


class PluginWarning(UserWarning):
    """A part of another package is left out."""


class MissingPackageError(AllocoptError, ImportError):
    """An optional package is needed and not installed."""

    exit_code = 5
