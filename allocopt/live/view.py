"""The state of a live service as its journal shows it, read by another process while the journal grows."""

import math
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Tree
from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.files.faults import bad_file, os_fault
from allocopt.live.journal import Totals, parsed, read_line
from allocopt.live.state import LOOK_S
from allocopt.report.words import duration, percent, printable, shortened

TAIL_BYTES = 64_000_000
"""Bytes at the end of a long journal that are read at first; more are read if they hold no complete state."""
_KEPT_POINTS, _KEPT_EVENTS = 2000, 100
_GIVEN = ("held", "pinned")
_WORDS = {
    "begun": "the service begins: --{mode}, solver {solver}",
    "ended": "the service ends",
    "away": "Slurm does not answer: {why}",
    "back": "Slurm answers again",
    "cut": "the greedy answer is used for {jobs}: {cut}",
    "pinned": "job {job} is pinned to {nodes}",
    "unpinned": "job {job} is no longer pinned: {why}",
    "unseen": "pinned job {job} is no longer listed; whether it started on its nodes is unknown",
    "left alone": "job {job} has changed and is left to Slurm",
    "left": "job {job} is left to Slurm: {why}",
    "no relocation": "job {job} gets no room by relocation: {why}",
    "relocation": "room for job {gang}: {what}",
    "requeued": "job {job} is requeued to make room for job {gang}",
    "moved": "job {job} has moved to {nodes}",
    "freed": "job {job} is released",
    "relocation done": "job {job} has its room; {requeued} jobs were requeued",
    "relocation dropped": "the relocation for job {job} is dropped: {why}; {requeued} jobs were requeued",
    "refused": "Slurm refuses a change of {jobs}: {why}",
    "released": "released: {jobs}",
    "started": "job {job} starts on {nodes}{how}{cost}",
    "host found": "host {host} can take guests",
    "host ended": "host {host} has ended",
    "guest placed": "guest {guest} runs beside {host} at {percent} %",
    "guest paused": "guest {guest} is paused: {why}",
    "guest refused": "guest {guest} cannot run beside {host}: {why}",
    "guest ended": "guest {guest} has ended with exit code {code}",
    "guest killed": "guest {guest} is killed: {why}",
}


class WindowPoint(NamedTuple):
    """A window in numbers: its time, jobs, hop costs of the answer and of the greedy answer, gap and seconds."""

    at_s: float
    jobs: int
    objective: float
    greedy: float
    gap: float
    seconds: float


class StartPoint(NamedTuple):
    """A judged start in numbers: its time, its hop cost, and the proven optimum."""

    at_s: float
    chosen: float
    optimum: float


@dataclass(slots=True)
class View:
    """The state of a service and its cluster after the events so far.

    Parameters
    ----------
    about
        ``mode``, ``solver``, ``cluster``, ``since`` (seconds since 1970) and ``period`` (seconds) of the service.
    totals
        Sums over the run of the service.
    jobs
        Records of the jobs that wait or run, as the events ``state`` and ``look`` hold them, by id.
    left
        Why waiting jobs are left to Slurm, by id.
    away
        Hostlists of nodes on which no job may start, by their state.
    tree
        The cluster; None until an event describes it.
    look_s, away_why, is_ended
        The time of the last look, why Slurm has not answered since, and whether the service has ended.
    window
        The event of the last window.
    expected
        The number of waiting jobs, and their expected mean wait in seconds in Slurm's order and in the service's.
    windows, starts, events
        The most recent ones; an event as its time and a sentence.
    """

    about: dict[str, Any] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    tree: NamedTree | None = None
    look_s: float = 0.0
    away_why: str = ""
    is_ended: bool = False
    window: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    windows: deque[WindowPoint] = field(default_factory=lambda: deque(maxlen=_KEPT_POINTS))
    starts: deque[StartPoint] = field(default_factory=lambda: deque(maxlen=_KEPT_POINTS))
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_KEPT_EVENTS))

    def add(self, event: Mapping[str, Any]) -> None:
        """Update the view by an event. Raises `KeyError`, `TypeError` or `ValueError` if the event is incomplete."""
        at_s = datetime.fromisoformat(event["at"]).timestamp()
        name, job = event["event"], str(event.get("job", ""))
        self.totals.add(event)
        match name:
            case "begun" | "state" | "look":
                (self._begin if name == "begun" else self._see)(event, at_s)
            case "window":
                self._solve(event, at_s)
            case "left":
                self.left[job] = event["why"]
            case "pinned" | "held" | "unpinned" | "released":
                self._mark(event, {"pinned": "pinned", "released": "waiting"}.get(name, "held"))
            case "started" if event.get("optimum") is not None and event["proved"]:
                self.starts.append(StartPoint(at_s, event["chosen"], event["optimum"]))
            case "away" | "back":
                self.away_why = event.get("why", "")
            case "ended":
                self.is_ended = True
            case "expected":
                self.expected = {key: event[key] for key in ("waiting", "slurm_wait_s", "ordered_wait_s")}
        if words := _in_words(event):
            self.events.append((at_s, printable(words)))

    def _mark(self, event: Mapping[str, Any], state: str) -> None:
        for job in self.jobs.keys() & {*event.get("jobs", (str(event.get("job", "")),))}:
            self.jobs[job] |= {"state": state, "on": event.get("nodes", "")}

    def _begin(self, event: Mapping[str, Any], at_s: float) -> None:
        # After a rotation the new file begins with the same event as the old one.
        if at_s != self.about.get("since"):
            self.about = {"mode": event["mode"], "solver": event["solver"], "since": at_s}
            self.totals, self.jobs, self.left, self.window, self.expected = Totals(), {}, {}, {}, {}
            self.look_s, self.is_ended, self.away_why = at_s, False, ""

    def _solve(self, event: Mapping[str, Any], at_s: float) -> None:
        # The instance is large and not shown.
        self.window = {key: value for key, value in event.items() if key != "instance"} | {"at_s": at_s}
        gap = math.nan if event["gap"] is None else event["gap"]
        objective, seconds = event["answer"]["objective"], event["plan_s"] + event["solve_s"]
        self.windows.append(WindowPoint(at_s, len(event["jobs"]), objective, event["greedy"], gap, seconds))

    def _see(self, event: Mapping[str, Any], at_s: float) -> None:
        if event["event"] == "state":
            known = Totals.__dataclass_fields__.keys()
            self.totals = Totals(**{key: value for key, value in event["totals"].items() if key in known})
            self.about = {key: event.get(key) for key in ("mode", "solver", "since", "period", "cluster")}
            self.tree = _tree_of(event["nodes"], event["levels"], event["hops"])
            self.jobs = {}
        self.jobs |= event.get("jobs", {})
        for job in event.get("gone", ()):
            self.jobs.pop(job, None)
        self.left = {job: why for job, why in self.left.items() if job in self.jobs}
        self.away = event.get("away", self.away)
        self.look_s, self.away_why, self.is_ended = at_s, "", False

    def waiting(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the waiting jobs, the pinned ones first, then by priority."""
        found = [(job, told) for job, told in self.jobs.items() if told["state"] in ("waiting", *_GIVEN)]
        return sorted(found, key=lambda one: (one[1]["state"] != "pinned", -one[1].get("priority", 0), _place(one[0])))

    def running(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the jobs that have started, the latest start first."""
        found = [(job, told) for job, told in self.jobs.items() if told["state"] not in ("waiting", *_GIVEN)]
        return sorted(found, key=lambda one: (-one[1].get("start_s", 0), _place(one[0])))

    def condition(self, now_s: float) -> str:
        """Return whether the service is ``running``, ``ended``, ``away`` (Slurm does not answer) or ``silent``."""
        if self.is_ended:
            return "ended"
        if self.away_why:
            return "away"
        return "silent" if now_s - self.look_s > 3 * max(LOOK_S, self.about.get("period") or 0.0) else "running"

    def verdict(self, now_s: float) -> str:
        """Return the condition of the service as a sentence."""
        age = duration(max(round(now_s - self.look_s), 0))
        return {
            "running": f"The service runs; its last look was {age} ago.",
            "ended": f"The service has ended; its last look was {age} ago.",
            "away": f"Slurm has not answered for {age}: {self.away_why}",
            "silent": f"The service has written nothing for {age}: it waits for Slurm, or was killed.",
        }[self.condition(now_s)]

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return figures by name, with units in the names; unknown figures are None."""
        states = Counter(told["state"] for told in self.jobs.values())
        waits = {state: states.pop(state, 0) for state in ("waiting", *_GIVEN)}
        away = {state: len(expand_hostlist(hostlist)) for state, hostlist in self.away.items()}
        window: dict[str, Any] | None = None
        if self.window:
            answer, told = self.window["answer"], self.window
            window = {
                "age_s": max(now_s - told["at_s"], 0.0), "jobs": len(told["jobs"]), "objective": answer["objective"],
                "greedy": told["greedy"], "bound": answer["bound"], "gap": told["gap"], "solver": answer["solver"],
                "status": answer["status"], "plan_s": told["plan_s"], "solve_s": told["solve_s"],
            }  # fmt: skip
        totals = self.totals
        return {
            **self.about, "condition": self.condition(now_s), "look_age_s": max(now_s - self.look_s, 0.0),
            "jobs": {"running": states.total(), **waits}, "nodes": self.tree.tree.size if self.tree else None,
            "nodes_busy": len({node for _, told in self.running() for node in expand_hostlist(told.get("on", ""))}),
            "nodes_away": away, "window": window, "expected": self.expected or None, "regret": totals.regret,
            "totals": {key: getattr(totals, key) for key in Totals.__dataclass_fields__},
            "gain": 1 - totals.objective / totals.greedy if totals.greedy else None,
            "events": [{"at_s": at_s, "words": words} for at_s, words in list(self.events)[-10:]],
        }  # fmt: skip


class Follower:
    """Reads a journal while it grows, through rotations, and keeps the state of the service in `view`.

    Parameters
    ----------
    path
        The journal.
    tail_bytes
        Bytes at its end that are read at first; more are read if they hold no complete state.

    Raises
    ------
    BadFileError
        If the file cannot be read, or is not a journal.
    """

    def __init__(self, path: Path, tail_bytes: int = TAIL_BYTES) -> None:
        self.path = path
        self.view = View()
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise bad_file(path, os_fault(error)) from None
        first = read_line(self._file, path, "line 1")
        if not first:
            raise bad_file(path, "is empty, must be the journal of allocopt live")
        parsed(first, path, "line 1", is_first=True)
        size = self._file.seek(0, os.SEEK_END)
        while True:
            begin = max(size - tail_bytes, 0)
            self._file.seek(begin)
            if begin:
                # The first line is most likely incomplete.
                read_line(self._file, path, "the line")
            self.view = View()
            self._read_lines()
            if not begin or self.view.tree is not None:
                self.read()
                return
            tail_bytes *= 8

    def read(self) -> View:
        """Read what has been written since the last call, and return the view."""
        while True:
            self._read_new_lines()
            try:
                there = self.path.stat()
                if there.st_size >= self._file.tell() and os.path.samestat(there, os.fstat(self._file.fileno())):
                    return self.view
                following = self.path.open("rb")
            except OSError:
                # During a rotation there may be no file of this name.
                return self.view
            # Read what was written into the old file before the new one was opened.
            self._read_new_lines()
            self._file.close()
            self._file = following

    def _read_lines(self) -> None:
        while line := read_line(self._file, self.path, "a line"):
            self.view.add(parsed(line, self.path, f"the line that ends at byte {self._file.tell()}"))

    def _read_new_lines(self) -> None:
        while line := read_line(self._file, self.path, "a line"):
            # If the file was truncated and has grown again, this can be the rest of a line, which is skipped.
            # The next state is complete.
            with suppress(BadFileError, InvalidProblemError):
                self.view.add(parsed(line, self.path, "a new line"))


def status_lines(view: View, now_s: float, lines: int = 24, columns: int = 80) -> Iterator[str]:
    """Yield the lines that show a service on a terminal of a size, with the last events at the end."""
    made = [shortened(line, columns - 1) for line in _status(view, now_s)]
    room = max(lines - len(made) - 3, 0)
    yield from made
    recent = list(view.events)[-room:] if room else []
    if recent:
        yield ""
        yield from (shortened(f"{clock(at_s)}  {words}", columns - 1) for at_s, words in recent)


def _status(view: View, now_s: float) -> Iterator[str]:
    found, totals = view.summary(now_s), view.totals
    jobs, away = found["jobs"], found["nodes_away"]
    since = view.about.get("since") or now_s
    name = f"cluster {view.about['cluster']}, " if view.about.get("cluster") else ""
    yield f"{name}--{view.about.get('mode')}, solver {view.about.get('solver')}, since {clock(since, is_dated=True)}"
    yield view.verdict(now_s)
    yield ""
    yield "jobs     " + ", ".join(f"{jobs[state]:,} {state}" for state in ("running", "waiting", *_GIVEN))
    if view.tree is not None:
        states = "".join(f", {count:,} {state}" for state, count in away.items())
        yield f"nodes    {found['nodes']:,}: {found['nodes_busy']:,} with jobs{states}"
    so_far = f"{totals.as_pinned:,} started as pinned, {totals.unpinned:,} released"
    yield f"pins     {totals.pinned:,}: {so_far}; {totals.refused:,} refused by Slurm"
    gain = "" if found["gain"] is None else f"; hop cost {percent(found['gain'])} below the greedy rule's"
    cut = f", {totals.cut:,} cut to the greedy answer" if totals.cut else ""
    yield f"windows  {totals.windows:,}: {totals.proved:,} proved{cut}{gain}"
    yield f"starts   {totals.starts:,} judged: {totals.starts_proved:,} proved; regret {percent(totals.regret)}"
    if expected := found["expected"]:
        order, slurm = (duration(expected[name]) for name in ("ordered_wait_s", "slurm_wait_s"))
        yield f"order    expected mean wait of {expected['waiting']:,} jobs {order}, in Slurm's order {slurm}"
    if totals.relocations:
        ended = f"{totals.relocated:,} done, {totals.relocations_dropped:,} dropped; {totals.requeued:,} jobs requeued"
        yield f"room     {totals.relocations:,} plans: {totals.relocations_proved:,} proved, {ended}"
    if window := found["window"]:
        gap = "unknown" if window["gap"] is None else percent(window["gap"], 2)
        bound = "none" if window["bound"] is None else f"{window['bound']:,.0f}"
        seconds = f"plan {window['plan_s']:.3f} s, solve {window['solve_s']:.3f} s"
        yield ""
        yield f"last window, {duration(round(window['age_s']))} ago: jobs {window['jobs']:,}, {seconds}"
        yield f"  hop cost {window['objective']:,.0f}, greedy {window['greedy']:,.0f}, bound {bound}, gap {gap}"


def clock(at_s: float, *, is_dated: bool = False) -> str:
    """Return a time in UTC as text."""
    return time.strftime("%Y-%m-%d %H:%M UTC" if is_dated else "%H:%M:%S", time.gmtime(at_s))


def _in_words(event: Mapping[str, Any]) -> str:
    """Return an event as a sentence; empty for events that are shown elsewhere."""
    told = defaultdict(str, event)
    told["jobs"] = ", ".join([*event.get("jobs", ())] or [told["job"]])
    if told["as_pinned"] != "":
        told["how"] = ", as pinned" if told["as_pinned"] else ", not as pinned"
    if event.get("optimum") is not None:
        told["cost"] = f": hop cost {event['chosen']:,.0f}, optimum {event['optimum']:,.0f}"
    is_cut = event["event"] == "window" and "cut" in event
    return _WORDS.get("cut" if is_cut else event["event"], "").format_map(told)


def _place(job: str) -> tuple[int, str]:
    return (int(job), "") if job.isdecimal() else (0, job)


def _tree_of(nodes: str, levels: Sequence[Mapping[str, Any]], hops: Sequence[int]) -> NamedTree:
    names = tuple(expand_hostlist(nodes))
    numbers = {name: number for number, name in enumerate(names)}
    leaves, *above = levels
    of_leaf = {leaf: [numbers[name] for name in expand_hostlist(hostlist)] for leaf, hostlist in leaves.items()}
    return NamedTree(Tree.from_levels([of_leaf, *above], hops), names)
