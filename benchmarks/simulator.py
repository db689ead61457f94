"""Speed of the simulator, compared with a plain Python loop: built-in and Python schedulers, environments, memory.

One core, kernels warm. Needs the folder with the data (``--data``), which is not part of the project: two workloads of
10,000 jobs drawn from the Lublin-Feitelson model, and the CEA Curie log of the Parallel Workloads Archive. Takes about
two minutes.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
from plain_loop import plain_starts

from allocopt.cluster.platform import Platform
from allocopt.envs.batch_scheduling.task import BatchSchedulingEnv, BatchSchedulingVectorEnv
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rooms import kernels_of
from allocopt.simulator.rules import Backfill, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler, Scheduler, get_policy, policy_names
from allocopt.simulator.simulate import simulate
from allocopt.simulator.state import new_state
from allocopt.simulator.view import View
from allocopt.traces.generators import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from papers.pages import page_parser, write_page

LUBLIN, ESTIMATED, CURIE = "lublin_256", "lublin_256_est", "CEA-Curie-2011-2.1-cln"
PROCESSORS = {LUBLIN: 256, ESTIMATED: 256, CURIE: 80_640}
SEED = 0
N_ENVS = 256
N_STEPS = 20_000
MEMORY_JOBS = 1_000_000
LONG_QUEUE = 350_000

ELSEWHERE = """\
## Other simulators, measured elsewhere

On the same 10,000 jobs, but on another machine and not by this script: only the order of magnitude counts.

| simulator | FCFS jobs/s | EASY jobs/s | remark |
| --- | ---: | ---: | --- |
| a plain C++ loop | 14,500,000 | 3,200,000 | |
| pyss (Python 2.7) | 27,400 | 1,420 | the same schedules |
| RLScheduler | 7,800 | 20,900 | its backfilling is not EASY |
| Alea 4 (Java, with the start of the JVM) | 660 | 1,370 | its schedule differs |
| AccaSim 1.1.3 | 247 | 763 | its backfilling is not EASY |
| CQGym | 173 | 215 | uses actual run times |

Environments stepped one at a time: RLScheduler 3,400 to 4,400 steps/s, CQGym 192."""


class Times(NamedTuple):
    """Times of several repetitions, in seconds."""

    seconds: list[float]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def middle(self) -> float:
        return median(self.seconds)


class FirstCome:
    """FCFS as a user would write it."""

    def schedule(self, view: View) -> Iterable[Decision]:
        """Start jobs from the head of the queue while they fit."""
        while (head := view.head) is not None and view.fits(head):
            yield Start(head)


class Easy:
    """EASY backfilling as a user would write it."""

    def schedule(self, view: View) -> Iterable[Decision]:
        """Start jobs from the head of the queue while they fit, then jobs that do not delay the first one."""
        while (head := view.head) is not None and view.fits(head):
            yield Start(head)
        if head is not None:
            yield from map(Start, view.backfillable(head))


def timed(action: Callable[[], object], repeats: int) -> Times:
    """Time an action several times, after one run that does not count."""
    return in_turn([action], repeats)[0]


def in_turn(actions: Sequence[Callable[[], object]], repeats: int) -> list[Times]:
    """Time actions in turn, so that other work of the machine slows all of them equally."""
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats + 1):
        for action, measured in zip(actions, seconds, strict=True):
            started = time.perf_counter()
            action()
            measured.append(time.perf_counter() - started)
    return [Times(measured[1:]) for measured in seconds]


def kernel_times(workload: Workload, processors: int, scheduler: ListScheduler, repeats: int) -> Times:
    """Time only the kernel, without the setup of the state."""
    rng = np.random.default_rng(SEED)
    order = scheduler.order.keys(workload, rng)
    backfill_order = None if scheduler.backfill_order is None else scheduler.backfill_order.keys(workload, rng)
    pool = Platform.pool(processors)
    request = workload.processors[:, None].copy()
    (whole,) = kernels_of(pool, scheduler, is_built_in_only=True)
    seconds = []
    for _ in range(repeats + 1):
        state = new_state(
            workload,
            request,
            pool.total,
            Rules(),
            scheduler.backfill,
            order,
            backfill_order,
            compression=scheduler.compression,
        )
        started = time.perf_counter()
        whole(state, 1_000_000_000)
        seconds.append(time.perf_counter() - started)
    return Times(seconds[1:])


def queue_order(name: str) -> QueueOrder:
    policy = get_policy(name)
    assert isinstance(policy, QueueOrder), f"{name} is no queue order"
    return policy


def backfillings() -> dict[str, ListScheduler]:
    fcfs, sjf = queue_order("fcfs"), queue_order("sjf")
    return {
        "FCFS": ListScheduler(fcfs),
        "first fit": ListScheduler(fcfs, Backfill.FIRST_FIT),
        "EASY": ListScheduler(fcfs, Backfill.EASY),
        "EASY, shortest first (SJBF)": ListScheduler(fcfs, Backfill.EASY, sjf),
        "conservative, no compression": ListScheduler(fcfs, Backfill.CONSERVATIVE, compression=False),
        "conservative": ListScheduler(fcfs, Backfill.CONSERVATIVE, compression=True),
    }


def built_in_section(
    title: str, workload: Workload, schedulers: dict[str, ListScheduler], repeats: int
) -> tuple[str, dict[str, Times]]:
    """Time `simulate`, and only its kernel."""
    processors = PROCESSORS[workload.name]
    whole: dict[str, Times] = {}
    rows: list[list[Cell]] = []
    for name, scheduler in schedulers.items():
        measured = timed(partial(simulate, workload, processors, scheduler, seed=SEED), repeats)
        kernel = kernel_times(workload, processors, scheduler, repeats)
        whole[name] = measured
        rows.append([name, 1e3 * measured.best, 1e3 * kernel.best, len(workload) / measured.best])
    table = aligned_table(["scheduler", "best ms", "kernel best ms", "jobs/s"], rows, (None, 2, 2, 0))
    return f"## {title} ({len(workload):,} jobs, P = {processors:,})\n\n{table}", whole


def orders_section(workload: Workload, repeats: int) -> str:
    """Time every installed queue order, without backfilling and with EASY."""
    rows: list[list[Cell]] = []
    for name, policy in ((name, get_policy(name)) for name in policy_names()):
        if isinstance(policy, QueueOrder):
            both = (ListScheduler(policy), ListScheduler(policy, Backfill.EASY))
            asked = [partial(simulate, workload, PROCESSORS[workload.name], one, seed=SEED) for one in both]
            rows.append([name, *(1e3 * timed(action, repeats).best for action in asked)])
    table = aligned_table(["order", "best ms", "with EASY"], rows, (None, 2, 2))
    return f"## Queue orders, lublin_256\n\n{table}"


def plain_section(workloads: Sequence[Workload], repeats: int) -> str:
    """Time the plain loop and `simulate` in turn, and check that both give the same schedules."""
    rows: list[list[Cell]] = []
    for workload in workloads:
        for name in ("FCFS", "EASY"):
            scheduler = backfillings()[name]
            asked = (workload, PROCESSORS[workload.name])
            plain = partial(plain_starts, *asked, scheduler.backfill)
            compiled = partial(simulate, *asked, scheduler)
            differing = int(np.count_nonzero(np.array(plain()) != compiled().start))
            loop, ours = in_turn([plain, compiled], repeats if len(workload) < 100_000 else 3)
            rows.append([workload.name, name, len(workload) / loop.best, loop.best / ours.best, differing])
    header = ["workload", "scheduler", "jobs/s", "ratio of times", "starts that differ"]
    table = aligned_table(header, rows, (None, None, 0, 1, 0))
    return (
        "## A plain Python loop\n\nLists, a heap of ends, a sorted list of promised ends (`benchmarks/plain_loop.py`), "
        f"timed in turn with `simulate`.\n\n{table}"
    )


def python_times(workload: Workload, scheduler: Scheduler, like: ListScheduler, repeats: int) -> Times:
    """Time a scheduler written in Python, which must give the schedule of a built-in one."""
    processors = PROCESSORS[workload.name]
    ours, expected = simulate(workload, processors, scheduler).start, simulate(workload, processors, like).start
    assert np.array_equal(ours, expected), f"{type(scheduler).__name__} does not give the built-in one's schedule"
    return timed(lambda: simulate(workload, processors, scheduler), repeats)


def single_steps(workload: Workload) -> None:
    """Step one environment; the agent takes a random one of the waiting jobs."""
    environment = BatchSchedulingEnv(workload, PROCESSORS[workload.name])
    _, info = environment.reset(seed=SEED)
    for draw in np.random.default_rng(SEED).random(N_STEPS).tolist():
        action = np.int64(draw * int(info["action_mask"].sum()))
        _, _, over, _, info = environment.step(action)
        if over:
            _, info = environment.reset()


def vector_steps(workload: Workload) -> None:
    environments = BatchSchedulingVectorEnv(N_ENVS, workload, PROCESSORS[workload.name])
    _, info = environments.reset(seed=SEED)
    rng = np.random.default_rng(SEED)
    for _ in range(5 * N_STEPS // N_ENVS):
        actions = (rng.random(N_ENVS) * info["action_mask"].sum(axis=1)).astype(np.int64)
        info = environments.step(actions)[4]


def bars_section(
    lublin: Workload, curie: Workload, measured: dict[str, dict[str, Times]], reading: Times, repeats: int
) -> str:
    kinds, jobs = backfillings(), len(lublin)
    steps = 5 * N_STEPS // N_ENVS * N_ENVS
    rates = [
        ("FCFS, lublin_256, jobs/s", 5e6, jobs, measured[LUBLIN]["FCFS"]),
        ("EASY, lublin_256, jobs/s", 1e6, jobs, measured[LUBLIN]["EASY"]),
        ("FCFS in Python, lublin_256, jobs/s", 3e4, jobs, python_times(lublin, FirstCome(), kinds["FCFS"], repeats)),
        ("EASY in Python, lublin_256, jobs/s", 3e4, jobs, python_times(lublin, Easy(), kinds["EASY"], repeats)),
        ("one environment, steps/s", 3e4, N_STEPS, timed(lambda: single_steps(lublin), repeats)),
        (f"{N_ENVS} environments, steps/s", 2e5, steps, timed(lambda: vector_steps(lublin), repeats)),
    ]
    rows: list[list[Cell]] = [
        [what, f"at least {bar:,.0f}", count / times.best, count / times.middle] for what, bar, count, times in rates
    ]
    whole = measured[CURIE]["EASY"]
    both = whole.best + reading.best, whole.middle + reading.middle
    seconds: list[list[Cell]] = [
        [f"EASY, Curie ({len(curie):,} jobs), s", "under 1", whole.best, whole.middle],
        ["the same with reading the log, s", "under 2", *both],
    ]
    table = aligned_table(["what", "asked for", "best", "median"], rows, (None, None, 0, 0))
    slow = aligned_table(["what", "asked for", "best", "median"], seconds, (None, None, 3, 3))
    return f"{table}\n\n{slow}\n\nReading Curie alone: best {reading.best:.3f} s, median {reading.middle:.3f} s. "


def long_queue_section() -> str:
    """Time jobs that are submitted all at once, to show how the cost of a pass grows with the queue."""
    schedulers: dict[str, ListScheduler | Scheduler] = {name: backfillings()[name] for name in ("FCFS", "EASY")}
    schedulers["SJF with EASY"] = ListScheduler(queue_order("sjf"), Backfill.EASY)
    schedulers |= {"FCFS in Python": FirstCome(), "EASY in Python": Easy()}
    rows: list[list[Cell]] = []
    workload = replace(lublin_workload(LONG_QUEUE, 256, np.random.default_rng(SEED)), submit=np.zeros(LONG_QUEUE))
    for name, scheduler in schedulers.items():
        times = timed(partial(simulate, workload, 256, scheduler), 1)
        rows.append([name, times.best, LONG_QUEUE / times.best])
    table = aligned_table(["scheduler", "s", "jobs/s"], rows, (None, 2, 0))
    about = f"{LONG_QUEUE:,} jobs of the Lublin-Feitelson model, P = 256, seed {SEED}, submitted at once."
    return f"## A long queue\n\n{about}\n\n{table}"


def memory_section() -> str:
    """Measure the peak memory of `simulate` beyond the workload, by Python's allocator."""
    workload = lublin_workload(MEMORY_JOBS, 256, np.random.default_rng(SEED))
    peaks = {}
    for name in ("FCFS", "EASY"):
        tracemalloc.start()
        simulate(workload, 256, backfillings()[name])
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    found = ", ".join(
        f"{name} {peak / 1e6:.1f} MB, {peak / MEMORY_JOBS:.1f} bytes a job" for name, peak in peaks.items()
    )
    return (
        f"## Memory\n\nPeak of `simulate` beyond the workload, which has 72 bytes a job itself, with {MEMORY_JOBS:,} "
        "jobs: "
        f"{found}."
    )


def main() -> None:
    options = page_parser(__doc__, data="traces/", quick="three repeats, the queue orders left out").parse_args()
    repeats, traces = 3 if options.quick else 15, options.data / "traces"
    lublin, curie = (read_workload(traces / f"{name}.swf.gz") for name in (LUBLIN, CURIE))
    short = {name: kind for name, kind in backfillings().items() if name in ("FCFS", "EASY")}
    parts = [
        (lublin, "lublin_256: estimates are the run times", backfillings()),
        (curie, "The whole CEA Curie log", short),
    ]
    sections, measured = [], {}
    for workload, title, schedulers in parts:
        section, measured[workload.name] = built_in_section(title, workload, schedulers, repeats)
        sections.append(section)
    if not options.quick:
        sections.append(orders_section(lublin, repeats))
    reading = timed(lambda: read_workload(traces / f"{CURIE}.swf.gz"), min(5, repeats))
    plain = plain_section([lublin, curie], repeats)
    bars = bars_section(lublin, curie, measured, reading, repeats)
    write_page(
        "simulator",
        "How fast the simulator is",
        "`simulate` schedules 7.0 million jobs/s by FCFS and 1.9 million by EASY on one core, 9 and 21 times as many "
        "as a plain Python loop with the same schedule; the whole CEA Curie log (295,540 jobs) takes 0.26 s by EASY. "
        "An environment does 100,000 steps/s, 256 side by side 584,000.",
        [bars, plain, *sections, long_queue_section(), memory_section(), ELSEWHERE],
        f"One core, kernels warm, default rules, seed {SEED}; each {repeats} times after a first run that does not "
        "count (reading at most 5 times, Curie in a plain loop 3 times). Times are those of `simulate`, which "
        "`allocopt simulate` reports as its run time; reading is not counted. *Kernel* is the compiled part of it, "
        "without setting the state up. Curie is the cleaned log of [the archive](../citing.md#traces).",
        is_quick=options.quick,
    )


if __name__ == "__main__":
    main()
