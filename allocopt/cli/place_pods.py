"""``allocopt place-pods``: place pods that ask for fractions of GPUs, under several policies."""

import time
from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import LARGEST, Json, file_argument, listed_words
from allocopt.cli.parameters import names_of

HEADER = ("policy", "GPUs allocated %", "less the first (95 %)", "pods placed %", "s an order")
DIGITS = (None, 2, None, 1, 2)


def command(
    nodes: Annotated[Path, file_argument("Table of nodes: sn, cpu_milli, memory_mib, gpu, model.")],
    pods: Annotated[Path, file_argument("Table of pods: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec.")],
    policies: Annotated[
        str | None,
        typer.Option(metavar="NAMES",
                     help="Compare these policies; the first is the baseline. Default: fgd, then all others.",
                     autocompletion=names_of("pod policies")),
    ] = None,
    asked: Annotated[
        float, typer.Option(min=0.01, max=1000.0, metavar="X", help="Let pods request X times the GPUs of the nodes.")
    ] = 1.3,
    orders: Annotated[int, typer.Option(min=1, max=LARGEST, metavar="N", help="Draw N random orders of arrival.")] = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Set the seed of the random orders.")] = 0,
    weights: Annotated[
        str | None, typer.Option(metavar="FILE", help="Use these weights for evolved-score, not the shipped ones.")
    ] = None,
    ceiling: Annotated[
        bool, typer.Option("--ceiling", help="Also print an upper bound for all policies.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Place pods that share GPUs, one by one, and print the share of the GPUs that each policy allocates.

    Pods arrive in random order and never leave. Arrivals stop before they request more than --asked times the GPUs. A
    pod that fits nowhere is rejected.
    """
    import json

    import numpy as np

    from allocopt.errors import UsageError
    from allocopt.gpu_sharing.ceiling import most_allocated
    from allocopt.gpu_sharing.placing import place_pods, pod_policy, pod_policy_names
    from allocopt.gpu_sharing.pods import WHOLE, read_gpu_nodes, read_pods
    from allocopt.kernels.ready import make_ready
    from allocopt.report.words import Cell, aligned_table
    from allocopt.traces.variants import Interval

    names = list(listed_words(policies)) or sorted(pod_policy_names(), key=lambda name: (name != "fgd", name))
    if weights is not None and "evolved-score" not in names:
        raise UsageError("--weights needs evolved-score among --policies")
    given = {} if weights is None else {"weights": weights}
    chosen = {name: pod_policy(name, given if name == "evolved-score" else None) for name in names}
    machine, usual = read_gpu_nodes(nodes), read_pods(pods)
    gpus = sum(node.gpus for node in machine)
    rngs = [np.random.default_rng((seed, at)) for at in range(orders)]
    arrivals = [usual.arrivals(asked * WHOLE * gpus, rng) for rng in rngs]
    if not all(map(len, arrivals)):
        raise UsageError(
            f"no pod arrives: each requests more than {asked:g} times the {gpus} GPUs; give a larger --asked"
        )
    make_ready([policy.kernel for policy in chosen.values()])
    rows: list[dict[str, object]] = []
    cells: list[list[Cell]] = []
    first = np.zeros(orders)
    for name, policy in chosen.items():
        started = time.perf_counter()
        placed = [place_pods(machine, usual, one, policy) for one in arrivals]
        seconds = (time.perf_counter() - started) / orders
        allocated = np.array([100 * one.share for one in placed])
        if not rows:
            first = allocated
        beside = Interval.of(allocated - first) if orders > 1 and rows else None
        found = 100 * float(np.mean([one.placed.mean() for one in placed]))
        rows.append({
            "policy": name, "allocated_percent": allocated.tolist(), "placed_percent": found, "seconds": seconds,
            "beside_first": None if beside is None else beside._asdict(),
        })  # fmt: skip
        words = "" if beside is None else f"{beside.mean:+.2f} ({beside.low:+.2f} .. {beside.high:+.2f})"
        cells.append([name, float(allocated.mean()), words, found, seconds])
    if ceiling:
        bounds = np.array([100 * most_allocated(machine, one) for one in arrivals])
        rows.append({
            "policy": "ceiling", "allocated_percent": bounds.tolist(), "placed_percent": None, "seconds": None,
            "beside_first": None,
        })  # fmt: skip
        cells.append(["ceiling", float(bounds.mean()), None, None, None])
    if as_json:
        print(json.dumps({"nodes": len(machine), "gpus": gpus, "rows": rows}))
        return
    print(f"{len(machine):,} nodes with {gpus:,} GPUs, {orders} orders of about {len(arrivals[0]):,} pods\n")
    print(aligned_table(HEADER, cells, DIGITS))
