"""Errors with messages for users, each with the exit code of the command line."""


class AllocoptError(Exception):
    """Base class of all errors that the package raises intentionally."""

    exit_code = 1


class UsageError(AllocoptError, ValueError):
    """A request that cannot be served: an unknown solver, an unsupported strategy, a window that is too large."""

    exit_code = 2


class InvalidProblemError(AllocoptError, ValueError):
    """A problem with contradictory data; the place is named as in its file, such as ``jobs[2].nodes``."""

    exit_code = 3

    def __init__(self, place: str, fault: str) -> None:
        super().__init__(f"{place}: {fault}")
        self.place = place
        self.fault = fault


class InvalidSolutionError(AllocoptError, ValueError):
    """A solution that breaks a rule of its problem, or states a wrong objective."""

    exit_code = 3


class WrongAnswerError(InvalidSolutionError):
    """A wrong answer of a solver, which is a bug of the solver."""

    exit_code = 1


class BadFileError(AllocoptError, ValueError):
    """A file that cannot be read or written; the message is one line with the file, the place and the fault."""

    exit_code = 3


class NoSolutionError(AllocoptError):
    """No solution was found within the limit."""

    exit_code = 4


class PluginError(AllocoptError):
    """A part that cannot be loaded, raises an error or breaks a rule, such as a solver of another package."""


class PluginWarning(UserWarning):
    """A part of another package is ignored."""


class MissingPackageError(AllocoptError, ImportError):
    """An optional package is needed but not installed."""

    exit_code = 5

    @classmethod
    def of(cls, what: str, package: str, extra: str = "") -> "MissingPackageError":
        """Return the error that says what needs a package, and how to install it.

        Parameters
        ----------
        what
            What needs it, as subject and verb, such as ``"YAML files need"``.
        package
            Name on PyPI.
        extra
            The extra of allocopt that installs it, if there is one.
        """
        install = f"'allocopt[{extra}]'" if extra else package
        return cls(f"{what} the package {package!r}, which is not installed: pip install {install}")
