"""Errors for jobs that a cluster can never serve, each with a short reason by which jobs are counted."""

from collections.abc import Collection, Iterable

from allocopt.errors import InvalidProblemError

OVERSIZED = "larger than the machine"
"""Reason of a job that is too large for the machine."""
MOST_SHOWN = 60  # characters of a name or an expression in a reason
_WORDS = {"memory_mib": "memory", "gpus": "GPUs"}  # for resources of a cluster


class UnservedError(InvalidProblemError):
    """A job that a cluster can never serve.

    Parameters
    ----------
    place, fault
        As of `InvalidProblemError`.
    reason
        Short phrase by which jobs are counted, such as ``no node has feature skylake``; the fault if not given.
    """

    def __init__(self, place: str, fault: str, reason: str = "") -> None:
        super().__init__(place, fault)
        self.reason = reason or fault


class OverLimitError(UnservedError):
    """A job exceeds a limit of its partition; Slurm refuses it if ``EnforcePartLimits`` is set."""


def reasons_in_words(reasons: Iterable[tuple[str, int]]) -> str:
    """Return reasons with their numbers of jobs in one line: ``larger than the machine: 3; not ended: 1``."""
    return "; ".join(f"{reason}: {jobs:,}" for reason, jobs in reasons)


def counted(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """Return reasons with their counts, in order of their first occurrence, without empty ones."""
    counts: dict[str, int] = {}
    for reason in filter(None, reasons):
        counts[reason] = counts.get(reason, 0) + 1
    return list(counts.items())


def brief(text: str) -> str:
    """Return a name or an expression for use in a reason: printable, and cut if it is too long."""
    seen = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return seen if len(seen) <= MOST_SHOWN else f"{seen[: MOST_SHOWN - 3]}..."


def unmodelled(names: Iterable[str]) -> str:
    """Return the reason of a job with demands that are not modelled."""
    return f"asks for {', '.join(names)}, which is not modelled"


def unknown_partition(name: str, known: Iterable[str]) -> UnservedError:
    """Return the error of a job in a partition that does not exist."""
    reason = f"partition {brief(name)} is not in the cluster"
    return UnservedError("request", f"{reason}, which has {', '.join(known)}", reason)


def closed_partition(name: str, why: str) -> UnservedError:
    """Return the error of a job in a partition in which no job starts; ``why`` is such as ``is down``."""
    return UnservedError("request", f"partition {brief(name)} {why}")


def over_time(asked_s: float, most_s: float, partition: str) -> OverLimitError:
    """Return the error of a job that asks for more time than its partition allows; times in seconds."""
    fault = f"asks for {asked_s:g} s, its partition allows {most_s:g} s"
    return OverLimitError("request", fault, f"over the time limit of partition {brief(partition)}")


def no_feature(constraint: str, asked: Collection[str], there: Collection[str], where: str) -> UnservedError:
    """Return the error of a job whose constraint no node meets.

    Parameters
    ----------
    constraint
        The expression.
    asked, there
        The features that it names, and those that some node has.
    where
        The nodes that were searched: empty for all nodes, or a phrase such as ``of partition main``.
    """
    missing = sorted(set(asked) - set(there))
    nodes = f"no node {where}".rstrip()
    if missing:
        return UnservedError("request", f"{nodes} has feature {brief(', '.join(missing))}")
    return UnservedError("request", f"{nodes} meets constraint {brief(constraint)}")


def no_gpus(kind: str, where: str = "") -> UnservedError:
    """Return the error of a job whose GPUs no node has. An empty type means any type; ``where`` as in `no_feature`."""
    of_type = f" of type {brief(kind)}" if kind else ""
    return UnservedError("request", f"{f'no node {where}'.rstrip()} has GPUs{of_type}")


def over_every_node(resource: str) -> UnservedError:
    """Return the error of a job that asks for more of a resource on one node than any node has."""
    name, _, kind = resource.partition(":")
    what = _WORDS.get(name, name) + (f" of type {brief(kind)}" if kind else "")
    reason = f"more {what} on a node than any node has"
    return UnservedError("request", f"asks for {reason}", reason)
