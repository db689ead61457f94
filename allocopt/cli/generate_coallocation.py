"""``allocopt generate coallocation``: synthetic co-allocation problems as instance files."""

from typing import Annotated, Literal

import typer

from allocopt.cli.generate_knapsack import Count, Out, Prefix, Seed

Hosts = Annotated[int, typer.Option(min=1, max=100_000, help="Number of running jobs.")]
Guests = Annotated[int, typer.Option(min=1, max=100_000, help="Number of waiting jobs.")]
Objective = Annotated[
    Literal["capacity", "response", "throughput"],
    typer.Option(help="What is maximized: cores put to use, response time saved, or work done."),
]
MaxSlowdown = Annotated[float, typer.Option(help="Most that a job may be slowed down, from 1 on.")]
MaxGuests = Annotated[int, typer.Option(min=1, max=9, help="Most guests on a host.")]


def command(
    out: Out,
    hosts: Hosts = 20,
    guests: Guests = 10,
    objective: Objective = "capacity",
    max_slowdown: MaxSlowdown = 1.5,
    max_guests: MaxGuests = 1,
    count: Count = 1,
    seed: Seed = 0,
    prefix: Prefix = "coallocation",
) -> None:
    """Draw co-allocation problems: jobs of the ASAX paper's workflows, running and waiting. Same seed, same files."""
    import numpy as np

    from allocopt.cli.writing import instance_names, write_instances
    from allocopt.errors import InvalidProblemError, UsageError
    from allocopt.problems.coallocation.problem import CoallocationObjective
    from allocopt.traces.coallocations import synthetic_coallocation

    names = instance_names(prefix, count)
    try:
        problems = [
            synthetic_coallocation(
                hosts,
                guests,
                rng,
                objective=CoallocationObjective(objective),
                max_slowdown=max_slowdown,
                max_guests=max_guests,
                name=name,
            )
            for name, rng in zip(names, np.random.default_rng(seed).spawn(count), strict=True)
        ]
    except InvalidProblemError as error:
        raise UsageError(str(error)) from None
    write_instances(out, problems, count)
