"""Why nothing helps: the fewest jobs that would have to become stoppable for a relocation to exist."""

from dataclasses import replace

from allocopt.problems.relocation.problem import PlacedJob, Relocation, RelocationProblem


def asking_everybody(problem: RelocationProblem) -> RelocationProblem:
    """Return the problem in which every job may stop: for nothing if it may leave anyway, else for 1.

    Its optimum is the least number of jobs that stand in the way; `obstacles` names them.
    """
    running = [replace(job, stop_cost=0.0 if job.may_leave else 1.0, move_cost=None) for job in problem.running]
    waiting = [replace(gang, wait_cost=None) for gang in problem.waiting if gang.wait_cost is None]
    return replace(problem, running=tuple(running), waiting=tuple(waiting))


def obstacles(problem: RelocationProblem, solution: Relocation) -> list[PlacedJob]:
    """Return the jobs that must not leave, and are stopped by a solution of `asking_everybody`."""
    pairs = zip(problem.running, solution.running, strict=True)
    return [job for job, places in pairs if places is None and not job.may_leave]
