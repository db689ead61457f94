"""Obvious, slow twin of a machine whose jobs slow each other down: exact fractions, first come, first served."""

from collections.abc import Callable
from fractions import Fraction

from allocopt.simulator.rules import Rules
from allocopt.traces.workload import Workload


def share_slowly(
    jobs: Workload, machine: int, speed: Callable[[int], Fraction], rules: Rules
) -> tuple[list[float], list[float]]:
    """Start and end of every job, when all run at a speed that depends on how many run; events are batched."""
    submit, processors = [Fraction(time) for time in jobs.submit], jobs.processors.tolist()
    left = [Fraction(time) for time in jobs.run]
    start: dict[int, Fraction] = {}
    end: dict[int, Fraction] = {}
    now, queue, arrived = Fraction(0), [], 0
    while len(end) < len(jobs):
        running = [job for job in start if job not in end]
        pace = speed(len(running)) if running else Fraction(0)
        limit = {job: start[job] + Fraction(jobs.estimate[job]) for job in running if rules.kill_at_limit}
        ends = {job: min(now + left[job] / pace, limit.get(job, now + left[job] / pace)) for job in running}
        time = min([*submit[arrived : arrived + 1], *ends.values()])
        for job in running:
            left[job] -= (time - now) * pace
        now = time
        end |= {job: now for job in running if ends[job] == now}
        while arrived < len(jobs) and submit[arrived] == now:
            queue.append(arrived)
            arrived += 1
        free = machine - sum(processors[job] for job in start if job not in end)
        while queue and processors[queue[0]] <= free:
            free -= processors[queue[0]]
            start[queue.pop(0)] = now
    rows = range(len(jobs))
    return [float(start[job]) for job in rows], [float(end[job]) for job in rows]
