"""Assumptions of a run, as sentences for its page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_OWN = {
    *("trace", "instances", "policy", "solver", "options", "seed", "backfill", "backfill_order", "allocator"),
    *("strategy", "processors", "fat_tree", "topology", "cluster", "platform", "time_limit", "iterations", "gap"),
    *("kill_at_limit", "event_order", "dependencies", "exact_estimates", "skip_oversized", "max_jobs", "execution"),
}
"""Fields that have their own sentence; others are listed by name and value."""


def assumptions(
    spec: Mapping[str, Any], made_by: Mapping[str, str] | None = None, remarks: Sequence[str] = ()
) -> list[str]:
    """Return sentences on the machine, trace, rules and options of a run, and on its provenance.

    ``spec`` holds the fields of a `SimulationSpec` or `SolveSpec` that differ from the default, as result files do.
    ``made_by`` is the provenance, if known. Remarks state what was counted, dropped and repaired.
    """
    if "instances" in spec:
        options = f" ({_settings(spec['options'])})" if spec.get("options") else ""
        strategy = f" under {spec['strategy']}" if "strategy" in spec else ""
        limits = _limits({"time_limit": 10.0, **spec})
        sentences = [f"Instances: {', '.join(spec['instances'])}."]
        sentences.append(f"Solver: {spec.get('solver', 'auto')}{options}{strategy}{limits}.")
        if spec.get("gap"):
            sentences.append(f"A solve stops at a gap of {100 * spec['gap']:g} % to the bound.")
        sentences.append(f"Seed: {spec.get('seed', 0)}. Every answer is verified outside its solver.")
    else:
        sentences = [*_of_simulation(spec)]
    sentences += [f"{remark}." for remark in remarks]
    others = {name: value for name, value in spec.items() if name not in _OWN}
    if others:
        sentences.append(f"Further settings: {_settings(others)}.")
    if made_by is not None:
        sentences.append(origin(made_by))
    return sentences


def origin(made_by: Mapping[str, str]) -> str:
    """Return a sentence with the known fields of a provenance."""
    parts = (f"{name} {made_by[name]}" for name in ("commit", "python", "machine") if name in made_by)
    return f"Made by allocopt {', '.join((made_by.get('version', 'of unknown version'), *parts))}."


def _of_simulation(spec: Mapping[str, Any]) -> Iterator[str]:
    if "platform" in spec:
        model = spec.get("execution", "contention")
        yield f"Machine: the multicore platform {spec['platform']}; jobs run by the {model} model."
    elif "cluster" in spec:
        yield f"Machine: the cluster of {', '.join(spec['cluster'])}; jobs get the resources that they request."
    elif "topology" in spec:
        yield f"Machine: the nodes of {spec['topology']}; every job gets whole nodes."
    elif "fat_tree" in spec:
        pods, leaves, nodes = spec["fat_tree"]
        yield f"Machine: a fat tree of {pods} pods with {leaves} leaves with {nodes} nodes; every job gets whole nodes."
    elif "processors" in spec:
        yield f"Machine: a pool of {spec['processors']:,} processors, all equal."
    else:
        yield "Machine: a pool of as many processors as the trace states, all equal."
    first = f", only the first {spec['max_jobs']:,} jobs" if "max_jobs" in spec else ""
    dropped = "; jobs larger than the machine are dropped" if spec.get("skip_oversized") else ""
    yield f"Trace: {spec['trace']}{first}{dropped}."
    policy = str(spec.get("policy", "fcfs"))
    if "backfill" in spec:
        order = f", candidates in the order {spec['backfill_order']}" if "backfill_order" in spec else ""
        policy += f" with {spec['backfill']} backfilling{order}"
    if spec.get("options"):
        policy += f" ({_settings(spec['options'])})"
    if "allocator" in spec:
        policy += f"; nodes are chosen by {spec['allocator']} under {spec.get('strategy', 'free')}{_limits(spec)}"
    yield f"Policy: {policy}."
    kills: dict[Any, str] = {
        True: "are killed at their estimate",
        False: "run as long as recorded, even beyond their estimate",
    }
    unsaid = kills[False] if "platform" in spec else f"{kills[True]}, unless they share cores"
    ends = kills.get(spec.get("kill_at_limit"), unsaid)
    is_sequential = spec.get("event_order") == "sequential"
    events = "after each event" if is_sequential else "once after all events of a point in time"
    if "platform" not in spec:
        waits = "ignored" if spec.get("dependencies") is False else "kept"
        knows = "the run times" if spec.get("exact_estimates") else "the estimates of users"
        yield f"Rules: jobs {ends}; dependencies of the trace are {waits}."
        yield f"The scheduler runs {events}, and knows {knows}."
    else:
        yield f"Rules: jobs {ends}."
    yield f"Seed: {spec.get('seed', 0)}."


def _limits(spec: Mapping[str, Any]) -> str:
    seconds, steps = spec.get("time_limit"), spec.get("iterations")
    limits = [f"{seconds:g} s"] if seconds is not None else []
    limits += [f"{steps:,} iterations"] if steps is not None else []
    return f", at most {' and '.join(limits)} each" if limits else ""


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
