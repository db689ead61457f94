"""Rules of jobs: the optional keys of a job in an instance file."""

from collections.abc import Sequence

from allocopt.files.models import GroupsModel, JobModel
from allocopt.problems.side import Groups, Placement, Preference, Segments


def placement_of(job: JobModel) -> Placement | None:
    """Return the rules of a job; None if it has none."""
    placement = Placement(
        only_in=_groups(job.only_in),
        not_in=_groups(job.not_in),
        within=job.within,
        prefer=None if job.prefer is None else Preference(job.prefer.level, job.prefer.penalty),
        segments=None if job.segments is None else Segments(job.segments.nodes, job.segments.level),
    )
    return None if placement == Placement() else placement


def keys_of(placement: Placement | None) -> dict[str, object]:
    """Turn the rules of a job into the keys that stand in an instance file."""
    keys: dict[str, object] = {}
    if placement is None:
        return keys
    for key, listed in (("only_in", placement.only_in), ("not_in", placement.not_in)):
        if listed:
            keys[key] = [{"level": groups.level, "groups": list(groups.groups)} for groups in listed]
    if placement.within is not None:
        keys["within"] = placement.within
    if placement.prefer is not None:
        keys["prefer"] = {"level": placement.prefer.level, "penalty": short_number(placement.prefer.penalty)}
    if placement.segments is not None:
        keys["segments"] = {"nodes": placement.segments.nodes, "level": placement.segments.level}
    return keys


def short_number(value: float) -> float:
    """Return a whole number as an integer."""
    value = float(value)
    return int(value) if value.is_integer() and value < 1e15 else value


def _groups(listed: Sequence[GroupsModel]) -> tuple[Groups, ...]:
    """Return groups as a problem takes them."""
    return tuple(Groups(groups.level, tuple(groups.groups)) for groups in listed)
