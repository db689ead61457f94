"""``allocopt generate knapsack``: synthetic knapsack problems as instance files."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from allocopt.cli.options import LARGEST

Out = Annotated[
    Path,
    typer.Option(
        readable=False,
        help="A .jsonl[.gz] file for all instances, a .json[.gz] file for one, or a folder for one file each.",
    ),
]
Nodes = Annotated[int, typer.Option(min=1, max=LARGEST, help="Nodes of the machine.")]
Jobs = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of waiting jobs.")]
Objective = Annotated[
    Literal["capability", "capacity", "linear"], typer.Option(help="What is maximized: Eq. 1, Eq. 2 or values.")
]
Load = Annotated[float, typer.Option(help="Share of the nodes that are in use, from 0 to below 1.")]
Unit = Annotated[int, typer.Option(min=1, max=LARGEST, help="Jobs ask for multiples of so many nodes.")]
Resources = Annotated[int, typer.Option(min=1, max=4, help="Number of resources, nodes included.")]
Slots = Annotated[int, typer.Option(min=0, max=10_000, help="Slots of contiguous nodes; 0 for any free nodes.")]
Count = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of instances.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]
Prefix = Annotated[str, typer.Option(help="Name of the instance; of several, PREFIX-000, ...")]


def command(
    out: Out,
    nodes: Nodes = 4360,
    jobs: Jobs = 50,
    objective: Objective = "capability",
    load: Load = 0.5,
    unit: Unit = 1,
    resources: Resources = 1,
    slots: Slots = 0,
    count: Count = 1,
    seed: Seed = 0,
    prefix: Prefix = "knapsack",
) -> None:
    """Draw knapsack problems: jobs of log-uniform sizes, some nodes in use. Same seed, same files."""
    import numpy as np

    from allocopt.cli.writing import instance_names, write_instances
    from allocopt.problems.knapsack import Reward
    from allocopt.traces.knapsacks import synthetic_knapsack

    names = instance_names(prefix, count)
    problems = [
        synthetic_knapsack(
            nodes,
            jobs,
            rng,
            reward=Reward(objective),
            load=load,
            unit=unit,
            resources=resources,
            slots=slots,
            name=name,
        )
        for name, rng in zip(names, np.random.default_rng(seed).spawn(count), strict=True)
    ]
    write_instances(out, problems, count)
