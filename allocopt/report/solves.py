"""Verdict on solves: which solver has the best mean objective, by how much, and which one is the fastest."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from allocopt.plural import counted
from allocopt.problems.kind import is_maximized
from allocopt.report.rows import SolveRow
from allocopt.report.verdict import FEWEST_SAMPLES, Comparison, Quantity, compared_means
from allocopt.report.words import percent
from allocopt.solving.result import EQUAL_RELATIVE


def by_contender(rows: Sequence[SolveRow]) -> dict[str, list[SolveRow]]:
    """Return solves by solver and strategy, in order of appearance."""
    groups: dict[str, list[SolveRow]] = {}
    for row in rows:
        groups.setdefault(contender(row.solver, row.strategy), []).append(row)
    return groups


def contender(solver: str, strategy: str | None) -> str:
    """Return the name of a solver under a strategy."""
    return solver if strategy is None else f"{solver} ({strategy})"


def unit_of_time(rows: Sequence[SolveRow]) -> tuple[str, float]:
    """Return the unit in which the running times are shown, and its number in a second."""
    return ("ms", 1e3) if median(row.runtime_s for row in rows) < 1 else ("s", 1.0)


def solves_verdict(rows: Sequence[SolveRow]) -> list[str]:
    """Return the verdict in at most two sentences, one on objectives and one on running times."""
    if not rows:
        return []
    groups, (unit, factor) = by_contender(rows), unit_of_time(rows)
    known = {name: [row for row in own if row.objective is not None] for name, own in groups.items()}
    times = {name: factor * median(row.runtime_s for row in own) for name, own in groups.items()}
    shown = {name: f"{time:,.2f} {unit}" for name, time in times.items()}
    instances = len({(row.kind, row.instance) for row in rows})
    if not any(known.values()):
        return [f"None of {len(rows):,} solves has a solution."]
    if len(groups) == 1:
        (name,) = groups
        proved = sum(row.status == "OPTIMAL" for row in rows)
        answers = f"{len(known[name]):,} of {len(rows):,} solves have a solution, {proved:,} are proved optimal"
        return [f"{name}: {answers}, and the median time is {shown[name]}.", *_gap_sentence(rows)]
    sentences = []
    comparison = _comparison(known)
    if comparison is None:
        sentences.append("There is no verdict on objectives, because not all solvers have solved the same instances.")
    else:
        sentences.append(comparison.sentence(f" of {len(groups)} solvers on {counted(instances, 'instance')}"))
    fastest = min((name for name in groups if known[name]), key=lambda name: times[name])
    slowest = max(times, key=lambda name: times[name])
    best = fastest if comparison is None else min((one.name for one in comparison.best), key=lambda name: times[name])
    beside = slowest if best == fastest else best
    sentences.append(f"The fastest is {fastest}, with a median of {shown[fastest]}; {beside} takes {shown[beside]}.")
    return sentences


def _comparison(known: Mapping[str, Sequence[SolveRow]]) -> Comparison | None:
    """Compare mean objectives; return None if the solvers have not solved the same instances, of one kind."""
    solved = [sorted((row.kind, row.instance, row.seed) for row in rows) for rows in known.values()]
    kinds = {kind for kind, _, _ in solved[0]}
    if len(kinds) != 1 or any(each != solved[0] for each in solved):
        return None
    is_max = is_maximized(*kinds)
    words = ("highest", "higher", "lower") if is_max else ("lowest", "lower", "higher")
    quantity = Quantity("mean objective", *words, is_maximized=is_max, tolerance=EQUAL_RELATIVE)
    # The sample are instances: solves of one instance with several seeds are alike.
    names = sorted({row.instance for rows in known.values() for row in rows})
    place = {name: number for number, name in enumerate(names)}
    samples = {name: np.zeros((len(names), 2)) for name in known}
    for name, rows in known.items():
        for row in rows:
            samples[name][place[row.instance]] += 1.0, row.objective or 0.0
    why = f"fewer than {FEWEST_SAMPLES} instances"
    return Comparison(quantity, compared_means(samples), "solvers", no_interval=why)


def _gap_sentence(rows: Sequence[SolveRow]) -> list[str]:
    gaps = [row.gap for row in rows if row.gap is not None]
    if not gaps:
        return []
    worst = max(gaps)
    if worst < EQUAL_RELATIVE:
        return [f"All {len(gaps):,} gaps to the bound are 0."]
    return [f"The gap to the bound is {percent(sum(gaps) / len(gaps), 2)} on average and {percent(worst, 2)} at most."]
