"""Synthetic co-allocation problems: jobs of the ASAX paper's workflows, some running, some waiting."""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import typer

from allocopt.errors import UsageError
from allocopt.problems.coallocation.problem import CoallocationObjective, CoallocationProblem
from allocopt.traces.applications import APPLICATIONS, Application
from allocopt.traces.job_profile import ProfiledJob, Stage

JITTER = 0.2
"""How far a job's demands and times are from those of its application: a factor within 1 - JITTER .. 1 + JITTER."""
WALLTIME_FACTORS = (1.1, 3.0)
MEAN_WAIT_S = 1800.0


def drawn_coallocation(
    name: str,
    rng: np.random.Generator,
    hosts: Annotated[int, typer.Option(min=1, max=100_000, help="Number of running jobs.")] = 20,
    guests: Annotated[int, typer.Option(min=1, max=100_000, help="Number of waiting jobs.")] = 10,
    objective: Annotated[
        Literal["capacity", "response", "throughput"],
        typer.Option(help="What is maximized: cores put to use, response time saved, or work done."),
    ] = "capacity",
    max_slowdown: Annotated[float, typer.Option(help="Most that a job may be slowed down, from 1 on.")] = 1.5,
    max_guests: Annotated[int, typer.Option(min=1, max=9, help="Most guests on a host.")] = 1,
) -> CoallocationProblem:
    """Draw co-allocation problems: jobs of the ASAX paper's workflows, running and waiting. Same seed, same files."""
    return synthetic_coallocation(
        hosts,
        guests,
        rng,
        objective=CoallocationObjective(objective),
        max_slowdown=max_slowdown,
        max_guests=max_guests,
        name=name,
    )


def synthetic_coallocation(
    n_hosts: int,
    n_guests: int,
    rng: np.random.Generator,
    *,
    objective: CoallocationObjective = CoallocationObjective.CAPACITY,
    max_slowdown: float = 1.5,
    max_guests: int = 1,
    name: str = "coallocation",
) -> CoallocationProblem:
    """Draw a problem.

    Parameters
    ----------
    n_hosts, n_guests
        Running and waiting jobs, of any application and size; hosts are anywhere in their run.
    rng
        Source of randomness.
    objective
        What is maximized.
    max_slowdown
        Most that a job may be slowed down.
    max_guests
        Most guests on a host.
    name
        Name of the instance.

    Raises
    ------
    UsageError
        If a number makes no sense.
    """
    if n_hosts < 1 or n_guests < 1:
        raise UsageError(f"there are {n_hosts} hosts and {n_guests} guests, must be at least one of each")
    hosts = tuple(_running(_drawn(f"host-{number}", rng), rng) for number in range(n_hosts))
    guests = (_drawn(f"guest-{number}", rng) for number in range(n_guests))
    waiting = tuple(replace(guest, wait_s=round(float(rng.exponential(MEAN_WAIT_S)))) for guest in guests)
    return CoallocationProblem(
        hosts,
        waiting,
        max_slowdown=max_slowdown,
        max_guests=max_guests,
        objective_name=objective,
        name=name,
    )


def _drawn(identifier: str, rng: np.random.Generator) -> ProfiledJob:
    """Draw a job that has not begun."""
    app: Application = list(APPLICATIONS.values())[rng.integers(len(APPLICATIONS))]
    cores = int(rng.choice(app.sizes))
    run = round(app.runtime_s(cores) * _factor(rng))
    profile = tuple(_jittered(stage, cores, rng) for stage in app.profile(cores))
    return ProfiledJob(identifier, cores, profile, run, round(run * float(rng.uniform(*WALLTIME_FACTORS))))


def _factor(rng: np.random.Generator) -> float:
    """Draw how far a number is from that of its application."""
    return float(rng.uniform(1 - JITTER, 1 + JITTER))


def _jittered(stage: Stage, cores: int, rng: np.random.Generator) -> Stage:
    """Draw the demands of a stage; it keeps no less than one core busy."""
    cpu, memory, io = (round(min(1.0, value * _factor(rng)), 4) for value in (stage.cpu, stage.memory, stage.io))
    return replace(stage, cpu=max(cpu, round(1.0 / cores, 4)), memory=memory, io=io)


def _running(job: ProfiledJob, rng: np.random.Generator) -> ProfiledJob:
    """Let a job have run for a random share of its time: the stages behind it are gone."""
    done = float(rng.uniform(0.0, 0.9))
    ends = np.cumsum([stage.share for stage in job.profile])
    left = [min(stage.share, float(end) - done) for stage, end in zip(job.profile, ends, strict=True)]
    ahead = [(stage, share) for stage, share in zip(job.profile, left, strict=True) if share > 1e-9]
    shares = np.round([share / (1.0 - done) for _, share in ahead], 4)
    shares[int(shares.argmax())] += 1.0 - shares.sum()
    profile = tuple(
        replace(stage, share=round(float(share), 4))
        for (stage, _), share in zip(ahead, shares, strict=True)
        if share > 0
    )
    elapsed = done * job.remaining_s
    return replace(
        job,
        profile=profile,
        remaining_s=max(1, round(job.remaining_s - elapsed)),
        walltime_s=max(1, round(job.walltime_s - elapsed)),
    )
