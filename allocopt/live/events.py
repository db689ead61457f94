"""Models of the events in a journal. A journal that is read is checked against them; further keys are allowed."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from allocopt.files.models import FileModel


def _instant(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class _Event(FileModel, extra="ignore"):
    event: str
    at: Annotated[str, AfterValidator(_instant)]


class _Job(FileModel, extra="ignore"):
    state: str
    name: str = ""
    user: str = ""
    partition: str = ""
    size: int | None = None
    on: str = ""
    start_s: float = 0.0
    priority: float = 0.0
    why: str = ""


_Jobs = Annotated[dict[str, _Job], Field(default_factory=dict)]
_Names = Annotated[list[str], Field(default_factory=list)]
_ByState = Annotated[dict[str, str], Field(default_factory=dict)]


class _Begun(_Event):
    mode: str = ""
    solver: str = ""


class _State(_Begun):
    since: float = 0.0
    period: float = 0.0
    cluster: str = ""
    nodes: str
    levels: list[dict[str, str | list[str]]]
    hops: list[int]
    totals: dict[str, float]
    jobs: _Jobs
    gone: _Names
    away: _ByState


class _Look(_Event):
    looks: int
    jobs: _Jobs
    gone: _Names
    away: _ByState


class _Answer(FileModel, extra="ignore"):
    status: str
    solver: str
    objective: float
    bound: float | None


class _Window(_Event):
    jobs: list[str]
    nodes: Annotated[dict[str, str], Field(default_factory=dict)]
    greedy: float
    gap: float | None
    plan_s: float
    solve_s: float
    answer: _Answer
    instance: dict[str, Any]


class _Started(_Event):
    job: str
    optimum: float | None = None
    chosen: float | None = None
    proved: bool | None = None


class _Judged(_Started):
    optimum: float
    chosen: float
    proved: bool


class _OfJobs(_Event):
    job: str = ""
    jobs: _Names
    nodes: str = ""


class _Left(_Event):
    job: str
    why: str


class _OfGuest(_Event):
    guest: str
    host: str = ""
    percent: int = 0
    why: str = ""


class _OfHost(_Event):
    host: str
    slowdown: float


class _Expected(_Event):
    waiting: int
    slurm_wait_s: float
    ordered_wait_s: float


class _Relocation(_Event):
    gang: str
    what: str
    steps: list[dict[str, str]]
    cost: float | None
    proved: bool
    answer: dict[str, Any]
    instance: dict[str, Any]


class _Ended(_Event):
    job: str
    requeued: int
    why: str = ""


class _Away(_Event):
    why: str = ""


_MODELS: dict[str, type[_Event]] = {
    "begun": _Begun,
    "state": _State,
    "look": _Look,
    "window": _Window,
    "left": _Left,
    "no relocation": _Left,
    "relocation": _Relocation,
    "relocation done": _Ended,
    "relocation dropped": _Ended,
    "expected": _Expected,
    "away": _Away,
    "back": _Away,
    **dict.fromkeys(
        (f"guest {word}" for word in ("placed", "quota", "paused", "refused", "ended", "killed")), _OfGuest
    ),
    "host ended": _OfHost,
    **dict.fromkeys(
        (
            "pinned",
            "held",
            "requeued",
            "moved",
            "freed",
            "unpinned",
            "unseen",
            "released",
            "refused",
            "left alone",
            "placed",
        ),
        _OfJobs,
    ),
}


def model_of(event: dict[str, Any]) -> type[FileModel]:
    """Return the model of an event. An unknown event needs only a name and a time."""
    if event["event"] == "started":
        return _Started if event.get("optimum") is None else _Judged
    return _MODELS.get(str(event["event"]), _Event)
