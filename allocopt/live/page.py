"""A local page of a live service, and its metrics for Prometheus, made from the journal only."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.errors import MissingPackageError
from allocopt.live.view import Follower, View, clock
from allocopt.local_http import LocalHandler, LocalServer
from allocopt.plural import counted
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.tree import IDLE, TAKEN, TreePicture
from allocopt.report.html.page import page_text
from allocopt.report.plot import Axis, Colours, Figure, Panel
from allocopt.report.words import number, percent, shortened, time_unit

METRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_MOST_ROWS = 200
_BINS = 40
_FRESH_S = 1.0  # age up to which several readers share a page


@dataclass(slots=True)
class LivePage:
    """Makes a page for people and metrics for Prometheus about a service. Several threads may use it."""

    journal: Follower
    _colours: dict[str, int] = field(default_factory=dict)
    _made: str = ""
    _made_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def html(self) -> str:
        """Return the page; raise `MissingPackageError` if vl-convert or Jinja is not installed."""
        with self._lock:
            now_s = time.time()
            if not 0 <= now_s - self._made_s < _FRESH_S:
                view = self.journal.read()
                title = f"Cluster {view.about['cluster']}, live" if view.about.get("cluster") else "A cluster, live"
                self._made = page_text(title, self._sections(view, now_s), is_renewed=True)
                self._made_s = now_s
            return self._made

    def metrics(self) -> str:
        """Return the metrics as OpenMetrics."""
        with self._lock:
            return metrics_text(self.journal.read(), time.time())

    def _sections(self, view: View, now_s: float) -> list[Section]:
        found = view.summary(now_s)
        parts: list[Figure | Table] = [*_job_tables(view), *self._tree(view)]
        since = clock(view.about.get("since") or now_s, is_dated=True)
        source = f"allocopt live slurm --{view.about.get('mode')}, solver {view.about.get('solver')}, since {since}"
        gain, notes = _gain(view, found), _regret(view)
        now = Section("Now", (view.verdict(now_s), *gain), _facts(view, found), tuple(parts), notes, source=source)
        rows = tuple((clock(at_s), words) for at_s, words in reversed(view.events))
        events = Table("Last events, the newest first", (Column("UTC"), Column("event")), rows)
        return [now, *_window_section(view, found), *_time_section(view), Section("Events", parts=(events,))]

    def _tree(self, view: View) -> Iterator[Figure]:
        if view.tree is None:
            return
        numbers = {name: at for at, name in enumerate(view.tree.nodes)}
        owner = np.full(len(numbers), IDLE)
        for hostlist in view.away.values():
            owner[[numbers[name] for name in expand_hostlist(hostlist) if name in numbers]] = TAKEN
        placed = {job: told for job, told in (*view.running(), *view.waiting()) if told.get("on")}
        # A job keeps its colour as long as it is listed: new jobs choose after it.
        jobs = sorted(placed, key=lambda job: job not in self._colours)
        labels = [job if placed[job]["state"] == "running" else f"{job} {placed[job]['state']}" for job in jobs]
        for at, job in enumerate(jobs):
            # A node that is drained may still have its job.
            owner[[numbers[name] for name in expand_hostlist(placed[job]["on"]) if name in numbers]] = at
        wanted = {label: self._colours[job] for label, job in zip(labels, jobs, strict=True) if job in self._colours}
        picture = TreePicture(
            view.tree.tree, owner, labels, "tree", "Nodes and their jobs", view.tree.nodes, wanted, "not up"
        )
        self._colours = dict(zip(jobs, picture.keys, strict=True))
        yield picture.figure()


def _facts(view: View, found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    jobs, totals = found["jobs"], view.totals
    away = ", ".join(f"{count:,} {state}" for state, count in found["nodes_away"].items())
    pins = (
        ("held here", f"{jobs['held']:,}"),
        ("started as pinned", f"{totals.as_pinned:,} of {totals.pinned:,}"),
        ("pins taken back", f"{totals.unpinned:,}"),
        ("refused by Slurm", f"{totals.refused:,}"),
    )
    return (
        ("jobs running", f"{jobs['running']:,}"),
        ("jobs waiting", f"{jobs['waiting'] + jobs['held'] + jobs['pinned']:,}"),
        ("nodes with jobs", f"{found['nodes_busy']:,} of {found['nodes'] or 0:,}"),
        ("nodes not up", away or "0"),
        *((("windows cut to the greedy answer", f"{totals.cut:,}"),) if totals.cut else ()),
        *(pins if view.about.get("mode") == "pin" else ()),
    )


def _gain(view: View, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence on the hop cost of the answers, compared with the greedy rule, if there are any."""
    if found["gain"] is None:
        return ()
    totals, gain = view.totals, found["gain"]
    way = "below" if gain >= 0 else "above"
    answers = f"Its answers to {counted(totals.windows, 'window')} ({totals.proved:,} proved optimal)"
    return (f"{answers} have a hop cost {percent(abs(gain))} {way} that of the greedy rule.",)


def _regret(view: View) -> tuple[str, ...]:
    """Return a sentence on the starts whose optimum is known, if there are any."""
    totals = view.totals
    if not totals.starts_proved:
        return ()
    starts = counted(totals.starts_proved, "start")
    return (f"Regret: the hop cost of {starts} with a proved optimum is {percent(totals.regret)} above it.",)


def _job_tables(view: View) -> Iterator[Table]:
    waiting, running = view.waiting(), view.running()
    columns = (Column("job"), Column("name"), Column("user"), Column("partition"), Column("nodes", 0))
    rows = tuple(
        (*_cells(job, told), told["state"], told.get("on") or view.left.get(job) or told.get("why") or "")
        for job, told in waiting[:_MOST_ROWS]
    )
    if rows:
        yield Table("Queue", (*columns, Column("state"), Column("note")), rows, note=_more(waiting))
    rows = tuple(
        (*_cells(job, told), clock(told.get("start_s", 0.0)), told.get("on", "")) for job, told in running[:_MOST_ROWS]
    )
    if rows:
        yield Table(
            "Running, times in UTC", (*columns, Column("since"), Column("nodes held")), rows, note=_more(running)
        )


def _cells(job: str, told: Mapping[str, Any]) -> tuple[Any, ...]:
    texts = (shortened(str(told.get(key, "")), 32) for key in ("name", "user", "partition"))
    return (job, *texts, told.get("size"))


def _more(jobs: list[Any]) -> str:
    return f"and {len(jobs) - _MOST_ROWS:,} more" if len(jobs) > _MOST_ROWS else ""


def _window_section(view: View, found: Mapping[str, Any]) -> Iterator[Section]:
    if not (window := found["window"]):
        return
    gap = "unknown" if window["gap"] is None else percent(window["gap"], 2)
    facts = (
        ("solved at, UTC", clock(view.window["at_s"])),
        ("jobs", f"{window['jobs']:,}"),
        ("hop cost", number(window["objective"])),
        ("hop cost of the greedy rule", number(window["greedy"])),
        ("bound", "none" if window["bound"] is None else number(window["bound"])),
        ("gap", gap),
        ("time to plan", f"{1e3 * window['plan_s']:.1f} ms"),
        ("time to solve", f"{1e3 * window['solve_s']:.1f} ms"),
    )
    rows = tuple(
        (job, shortened(str(view.jobs.get(job, {}).get("name", "")), 32), nodes)
        for job, nodes in list(view.window.get("nodes", {}).items())[:_MOST_ROWS]
    )
    parts = (Table("Its answer", (Column("job"), Column("name"), Column("nodes")), rows),) if rows else ()
    verdict = f"The last window has {counted(window['jobs'], 'job')} and a hop cost of {number(window['objective'])}"
    proof = "proved optimal" if window["status"] == "OPTIMAL" else f"gap {gap}"
    verdict += f", {proof}; the greedy rule's is {number(window['greedy'])}."
    yield Section("Last window", (verdict,), facts, parts)


def _time_section(view: View) -> Iterator[Section]:
    windows, starts = (np.array(points, dtype=np.float64).T for points in (view.windows, view.starts))
    panels: list[Callable[[Colours], Panel]] = []
    first = min((float(each[0].min()) for each in (windows, starts) if each.size), default=view.look_s)
    edges = np.linspace(first, max(view.look_s, first + 1.0), _BINS + 1)
    unit_s, unit = time_unit(edges[-1] - first)
    ago = (edges[-1] - (edges[:-1] + edges[1:]) / 2) / unit_s

    def panel(title: str, unit_of: str, *lines: FloatArray) -> None:
        values = np.concatenate(lines)

        def draw(colours: Colours) -> Panel:
            x = Axis.linear(ago, f"{unit} before the last look", unit, is_tight=True)
            x = Axis((x.domain[1], x.domain[0]), x.ticks, x.title, unit=x.unit)
            made = Panel(colours, x, Axis.linear(np.append(values, (0.0, 1.0)), title, unit_of), 190)
            names = ("answers", "greedy rule") if len(lines) > 1 else ("",)
            # The first line is drawn last, so that it is seen if lines coincide.
            for series, name, line in reversed([*zip(range(len(lines)), names, lines, strict=True)]):
                known = np.isfinite(line)
                made.line(series, ago[known], line[known], name or title)
                made.points(series, ago[known], line[known], size=2.0)
            return made

        panels.append(draw)

    if windows.size:
        at_s, jobs, objective, greedy, gap, seconds = windows
        binned = [_sums(edges, at_s, each) for each in (objective, greedy, jobs)]
        panel("hop cost per job", "", _ratio(binned[0], binned[2]), _ratio(binned[1], binned[2]))
        count = _sums(edges, at_s, np.ones(len(at_s)))
        panel("gap to the bound, %", "%", 100 * _ratio(_sums(edges, at_s, gap), count))
        panel("plan and solve of a window, ms", "ms", 1e3 * _ratio(_sums(edges, at_s, seconds), count))
    if starts.size:
        at_s, chosen, optimum = starts
        regret = _ratio(_sums(edges, at_s, chosen), _sums(edges, at_s, optimum)) - 1
        panel("regret of starts, %", "%", 100 * regret)
    if panels:
        description = "Hop cost per job, gap, seconds and regret of the last windows and starts."
        counts = f"{counted(len(view.windows), 'window')} and {counted(len(view.starts), 'judged start')}"
        caption = f"Means over the last {counts}, in {_BINS} spans of time."
        series = ("answers", "greedy rule") if windows.size else ()
        figure = Figure(
            "time",
            "Windows and starts",
            description,
            lambda colours: [draw(colours) for draw in panels],
            caption,
            series,
        )
        yield Section("Over time", parts=(figure,))


def _sums(edges: FloatArray, at_s: FloatArray, values: FloatArray) -> FloatArray:
    return np.histogram(at_s, edges, weights=values)[0].astype(np.float64)


def _ratio(sums: FloatArray, counts: FloatArray) -> FloatArray:
    ratio: FloatArray = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return ratio


def metrics_text(view: View, now_s: float) -> str:
    """Return the metrics of a service in the text format of OpenMetrics 1.0."""
    found, totals = view.summary(now_s), view.totals
    jobs, window = found["jobs"], found["window"] or {}
    sums = (
        ("looks", "", "Looks at the cluster.", totals.looks),
        ("windows", "", "Windows that were solved.", totals.windows),
        ("windows_proved", "", "Windows whose answer was proved to be optimal.", totals.proved),
        ("windows_cut", "", "Windows with the greedy answer, because the solver gave none in time.", totals.cut),
        ("window_jobs", "", "Jobs in windows.", totals.jobs),
        ("hop_cost", "", "Hop cost of the answers of windows.", totals.objective),
        ("greedy_hop_cost", "", "Hop cost of the greedy rule's answers of the same windows.", totals.greedy),
        ("plan_seconds", "seconds", "Time that plans took.", totals.plan_s),
        ("solve_seconds", "seconds", "Time that solves took.", totals.solve_s),
        ("starts_judged", "", "Starts whose proven optimum is known.", totals.starts_proved),
        ("starts_hop_cost", "", "Hop cost of these starts.", totals.chosen),
        ("starts_optimum_hop_cost", "", "Proven optimum of the hop cost of these starts.", totals.optimum),
        ("jobs_pinned", "", "Jobs that were pinned to nodes.", totals.pinned),
        ("jobs_as_pinned", "", "Jobs that started on the nodes to which they were pinned.", totals.as_pinned),
        ("jobs_unpinned", "", "Jobs whose pin was taken back.", totals.unpinned),
        ("refused", "", "Requests that Slurm refused.", totals.refused),
        ("relocations", "", "Plans that make room for a gang, and proofs that no plan does.", totals.relocations),
        ("relocations_done", "", "Relocations that were carried out.", totals.relocated),
        ("relocations_dropped", "", "Relocations that were given up.", totals.relocations_dropped),
        ("jobs_requeued", "", "Jobs that were requeued for a gang.", totals.requeued),
    )
    gauges: tuple[tuple[str, str, str, float | None], ...] = (
        ("up", "", "Whether the service runs and Slurm answers it.", float(found["condition"] == "running")),
        ("last_look_age_seconds", "seconds", "Time since the last look that was written.", found["look_age_s"]),
        (
            "regret_ratio",
            "ratio",
            "Hop cost of judged starts divided by their proven optima, minus 1.",
            found["regret"],
        ),
        ("window_gap_ratio", "ratio", "Gap of the last window.", window.get("gap")),
        ("window_hop_cost", "", "Hop cost of the last window.", window.get("objective")),
        ("queue_length", "", "Waiting jobs, including held and pinned ones.", len(view.waiting())),
        ("nodes", "", "Nodes of the cluster.", found["nodes"]),
        ("nodes_busy", "", "Nodes that have jobs.", found["nodes_busy"]),
    )
    about = ",".join(f'{key}="{_label(view.about.get(key))}"' for key in ("cluster", "mode", "solver"))
    lines = _family("service", "info", "", "The service.")
    lines.append(f"allocopt_live_service_info{{{about}}} 1")
    for name, unit, text, total in sums:
        lines += [*_family(name, "counter", unit, text), f"allocopt_live_{name}_total {total!r}"]
    for name, unit, text, value in gauges:
        if value is not None:
            lines += [*_family(name, "gauge", unit, text), f"allocopt_live_{name} {value!r}"]
    for name, text, counts in (
        ("jobs", "Jobs that run or wait, by state.", jobs),
        ("nodes_away", "Nodes on which no job may start, by state.", found["nodes_away"]),
    ):
        lines += _family(name, "gauge", "", text)
        lines += [f'allocopt_live_{name}{{state="{_label(state)}"}} {count}' for state, count in counts.items()]
    return "\n".join((*lines, "# EOF", ""))


def _family(name: str, kind: str, unit: str, text: str) -> list[str]:
    units = [f"# UNIT allocopt_live_{name} {unit}"] if unit else []
    return [f"# TYPE allocopt_live_{name} {kind}", *units, f"# HELP allocopt_live_{name} {text}"]


def _label(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class PageServer(LocalServer):
    """Serves the page at ``/`` and the metrics at ``/metrics``."""

    def __init__(self, page: LivePage, port: int) -> None:
        self.page = page
        super().__init__(port, _Handler)


class _Handler(LocalHandler):
    server: PageServer

    def get(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, METRICS_TYPE, self.server.page.metrics())
        elif path == "/":
            try:
                self._answer(HTTPStatus.OK, "text/html", self.server.page.html())
            except MissingPackageError as error:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "not found; use / or /metrics\n")

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        self.reply(
            status,
            kind if "charset" in kind else f"{kind}; charset=utf-8",
            text.encode(),
            ("Content-Security-Policy", "frame-ancestors 'none'"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        )
