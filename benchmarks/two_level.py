"""The gain of rules by kept reservations, and the speed of two-level scheduling.

Needs the folder with the data (``--data``), which is not part of the project, for a month of the Theta trace. Takes
about half a minute.
"""

import time
from collections.abc import Iterator

import numpy as np

from allocopt.envs.dras.task import DrasEpisodes, DrasOptions, ObservationName, Observing
from allocopt.heuristics.scheduling.queue_orders import (
    FirstComeFirstServed,
    LargestFirst,
    ShortestJobFirst,
    SmallestAreaFirst,
    Unicep,
    Wfp3,
)
from allocopt.heuristics.scheduling.two_level import AtRandom, InOrder
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.rules import Reservations
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import TwoLevelScheduler
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from papers.pages import page_parser, write_page

NODES = 4_360
DAY_S = 86_400.0
WEEK = 7, 14
"""Days of the busiest week: from the first, up to but not including the second."""
LONG = 10_000
ORDERS = (FirstComeFirstServed(), Wfp3(), Unicep(), ShortestJobFirst(), SmallestAreaFirst())
SECONDS = 2.0

ASSUMED = (
    "Jobs submitted on days 8 to 14 of the Theta trace of January 2018 (published with CQGym; load 0.84, N = 4,360), "
    "on a machine that is empty at first, killed at their limits. Rules choose at level 1, and at level 2 (*fill*); "
    "reservations are renewed at every instance, which is EASY backfilling under the order, or kept until their jobs "
    "start. Window: 50 waiting jobs; the whole queue if reservations are renewed."
)


def week_of(trace: Workload) -> Workload:
    first, end = np.searchsorted(trace.submit, np.array(WEEK) * DAY_S)
    return trace.subset(slice(int(first), int(end)), float(trace.submit[first]))


def schedulers() -> Iterator[tuple[str, str, str, TwoLevelScheduler]]:
    """Yield order, fill, the rule of reservations, and the scheduler."""
    sjf = ShortestJobFirst()
    yield "fcfs", "fcfs", "renewed", TwoLevelScheduler(InOrder(ORDERS[0]), LONG, Reservations.RENEWED)
    for order in ORDERS:
        for kind, window in ((Reservations.RENEWED, LONG), (Reservations.KEPT, 50)):
            yield order.name, sjf.name, kind.name.lower(), TwoLevelScheduler(InOrder(order, sjf), window, kind)
    yield "largest", "-", "none", TwoLevelScheduler(InOrder(LargestFirst()), 50, Reservations.NONE)
    yield "at random", "-", "none", TwoLevelScheduler(AtRandom(), 50, Reservations.NONE)


def rules_section(week: Workload) -> str:
    """Return the waits under every rule, compared with FCFS with EASY."""
    rows: list[list[Cell]] = []
    base = None
    for order, fill, kind, scheduler in schedulers():
        schedule = simulate(week, NODES, scheduler)
        base = schedule if base is None else base
        rows.append([order, fill, kind, *waits(schedule, base)])
    header = ["order", "fill", "reservations", "mean wait h", "of FCFS", "longest h"]
    table = aligned_table(header, rows, (None, None, None, 2, 3, 2))
    return f"{len(week)} jobs; the first row is FCFS with EASY.\n\n{table}"


def waits(schedule: Schedule, base: Schedule) -> list[Cell]:
    """Return the mean wait in hours, its ratio to that of the base, and the longest wait."""
    times, mean_s = schedule.job_times, float(schedule.job_times.wait_s.mean())
    ratio = mean_s / float(base.job_times.wait_s.mean())
    return [mean_s / 3600, ratio, float(times.wait_s.max()) / 3600]


def speed_section(trace: Workload) -> str:
    firsts = range(0, len(trace) - 699, 700)
    weeks = [trace.subset(slice(first, first + 700), float(trace.submit[first])) for first in firsts]
    rows: list[list[Cell]] = [
        ["environment", name, episodes, *choices_per_s(weeks, name, episodes)]
        for name, episodes in (("slots", 1), ("slots", 16), ("slots", 64), ("state", 1), ("state", 16))
    ]
    first = Observing(lambda _, legal: int(legal.argmax()))
    for name, scheduler in (
        ("FCFS, two-level in Python", TwoLevelScheduler(InOrder(FirstComeFirstServed()))),
        ("the same by what agents see", TwoLevelScheduler(first)),
    ):
        rows.append([f"`simulate`: {name}", "-", None, jobs_per_s(trace, scheduler), None])
    table = aligned_table(["what", "observation", "episodes", "per s", "legal"], rows, (None, None, 0, 0, 1))
    text = (
        "CPU time of one core, W = 50, all of the trace: random choices in the environment, including observations; "
        "jobs in `simulate`. *Legal*: mean number of legal actions."
    )
    return f"## Speed\n\n{text}\n\n{table}"


def choices_per_s(weeks: list[Workload], observation: ObservationName, count: int) -> tuple[float, float]:
    """Return choices per second, and the mean number of legal actions."""
    episodes = DrasEpisodes(weeks, NODES, count, DrasOptions(observation=observation))
    numbers = np.arange(count) % len(weeks)
    episodes.begin(numbers)
    episodes.follow(numbers)
    rng = np.random.default_rng(0)
    used, choices, n_legal = 0.0, 0, 0
    while used < SECONDS:
        started = time.process_time()
        _, legal = episodes.observe()
        used += time.process_time() - started
        actions = (rng.random(legal.shape) * legal).argmax(axis=1)
        n_legal += int(legal.sum())
        started = time.process_time()
        episodes.step(actions)
        used += time.process_time() - started
        choices += count
    return choices / used, n_legal / choices


def jobs_per_s(trace: Workload, scheduler: Scheduler | ListScheduler) -> float:
    started = time.process_time()
    simulate(trace, NODES, scheduler)
    return len(trace) / (time.process_time() - started)


def main() -> None:
    options = page_parser(__doc__, data="traces/").parse_args()
    trace = read_workload(options.data / "traces" / "Theta-2018-01.swf.gz").fitting(NODES)
    sections = [rules_section(week_of(trace)), speed_section(trace)]
    write_page(
        "two_level",
        "Two-level scheduling by rules",
        "Rules at two levels halve the mean wait of FCFS with EASY: UNICEP, filled by the shortest job first, "
        "reduces it by 50 %, with a longest wait of 27 h; SJF reduces it by 60 %, but with a longest wait of 77 h, "
        "or by 54 % and with 34 h if reservations are kept.",
        sections,
        ASSUMED,
    )


if __name__ == "__main__":
    main()
