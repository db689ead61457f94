"""Explain why there is no relocation: find the fewest jobs that would have to be allowed to stop."""

from dataclasses import replace

from allocopt.problems.relocation.problem import PlacedJob, Relocation, RelocationProblem


def all_stoppable(problem: RelocationProblem) -> RelocationProblem:
    """Return the problem in which every job may stop, at cost 0 if it may stop anyway and at cost 1 otherwise.

    Moves cost nothing. The optimum is the least number of jobs that are in the way; `obstacles` names them.
    """
    running = [
        replace(
            job,
            stop_cost=1.0 if job.stop_cost is None else 0.0,
            move_cost=None if job.move_cost is None else 0.0,
            node_cost=0.0,
        )
        for job in problem.running
    ]
    waiting = [gang for gang in problem.waiting if gang.wait_cost is None]
    return replace(problem, running=tuple(running), waiting=tuple(waiting))


def obstacles(problem: RelocationProblem, solution: Relocation) -> list[PlacedJob]:
    """Return the jobs that a solution of `all_stoppable` stops although they must not stop."""
    pairs = zip(problem.running, solution.running, strict=True)
    return [job for job, places in pairs if places is None and job.stop_cost is None]
