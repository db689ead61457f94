"""Fits the penalties of the locality model to Table 1 of the CuSH paper, by a seeded search.

One table for both machines: the eight baselines of each are to have the paper's NTAT, waits and rewards, and shortest
job first with the right policy for every job those of CuSH, which it resembles (Figure 5): 54 numbers. Without the last
ones, penalties of nothing fit best. The search (CMA-ES) makes the mean fourth power of ``ln(ours / paper)`` small, and
pays for every rule whose better policy is not the paper's. It has nine parameters: the largest request, and for each
type the right policy's penalty at 0 and 512 GPUs and what the wrong policy costs beyond it there. ``--falling`` lets
penalties fall with the GPUs, too; ``--requested`` takes NTAT over the requested time, not the service time. It sees
training job sets only; the errors that it prints are of others. Needs the extra train.
"""

import argparse

import numpy as np
from cmaes import CMA

from allocopt.arrays import FloatArray
from allocopt.simulator.locality import SHARE, SIERRA_TABLE, Line, PenaltyTable, Policy, WorkloadType
from papers.cush.penalties import COLUMNS, PRINTED, Penalties, steps

RIGHT = {WorkloadType.COMPUTE: Policy.DEPTH_FIRST, WorkloadType.NETWORK: Policy.BREADTH_FIRST}
GPUS = 512
"""Each line is told by its values at 0 and at so many GPUs."""
ORDER_WEIGHT, MARGIN = 0.3, 0.004
"""What a logarithm costs by which a pair of policies is not ordered as printed, and by which it should be."""
CHECK = range(500_000, 500_600)
"""Seeds of job sets on which the errors are printed."""


def decoded(numbers: FloatArray, *, rising: bool) -> tuple[float, PenaltyTable]:
    """Return the largest request and the lines that the nine numbers of the search stand for."""
    lines = {}
    for (kind, right), four in zip(RIGHT.items(), np.exp(numbers[1:]).reshape(2, 4), strict=True):
        low, high, more_low, more_high = four.tolist()
        high += rising * low
        wrong_low = low + more_low
        wrong_high = high + more_high + rising * more_low
        lines[kind, right] = Line(low, (high - low) / GPUS)
        lines[kind, Policy(1 - right)] = Line(wrong_low, (wrong_high - wrong_low) / GPUS)
    return float(1 / (1 + np.exp(-numbers[0]))), PenaltyTable(lines)


def encoded(share: float, table: PenaltyTable, *, rising: bool) -> FloatArray:
    """Return the numbers that stand for a table, about: what they cannot say is as near as they come."""
    numbers = [np.log(share / (1 - share))]
    for kind, right in RIGHT.items():
        low, high, wrong_low, wrong_high = (
            line.base + gpus * line.per_gpu
            for line in (table.lines[kind, right], table.lines[kind, Policy(1 - right)])
            for gpus in (0, GPUS)
        )
        more_low = wrong_low - low
        four = np.array([low, high - rising * low, more_low, wrong_high - high - rising * more_low])
        numbers += np.log(np.maximum(four, 1e-3)).tolist()
    return np.array(numbers)


def loss_of(values: FloatArray) -> float:
    """Return what the search makes small."""
    errors = np.log(values / PRINTED)
    missing = np.maximum(0.0, MARGIN - steps(values) * np.sign(steps(PRINTED)))
    return float((errors**4).mean() ** 0.25 + ORDER_WEIGHT * missing.sum())


def report(penalties: Penalties) -> None:
    """Print the coefficients and their errors on other job sets than those of the search."""
    values = penalties.means(CHECK)
    errors, wrong = np.abs(np.log(values / PRINTED)), steps(values) * steps(PRINTED) < 0
    print(f"loss {loss_of(values):.3f}, share {penalties.share:.3f}")
    for (kind, policy), line in sorted(penalties.table.lines.items()):
        print(f"  {kind.label}, {policy.label}: {line.base:.3f} + {line.per_gpu:.5f} per GPU")
    for number, column in enumerate(COLUMNS):
        of = errors[..., number]
        print(f"  {column}: largest |ln| {of.max():.3f}, mean {of.mean():.3f}, {wrong[..., number].sum()} of 8 not so")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=60, help="training job sets, seeds from 0 on")
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--population", type=int, default=14)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--falling", action="store_true", help="let penalties fall with the GPUs, too")
    parser.add_argument("--requested", action="store_true", help="take NTAT over the requested time")
    options = parser.parse_args()
    rising = not options.falling

    def penalties_of(numbers: FloatArray) -> Penalties:
        share, table = decoded(numbers, rising=rising)
        return Penalties(share, table, options.requested)

    report(Penalties(SHARE, SIERRA_TABLE, options.requested))
    first = encoded(SHARE, SIERRA_TABLE, rising=rising)
    strategy = CMA(mean=first, sigma=options.sigma, seed=options.seed, population_size=options.population)
    best, least = first, np.inf
    for _ in range(options.generations):
        tried = []
        for _ in range(options.population):
            numbers = strategy.ask()
            tried.append((numbers, loss_of(penalties_of(numbers).means(range(options.sets)))))
            if tried[-1][1] < least:
                best, least = tried[-1]
        strategy.tell(tried)
    report(penalties_of(best))


if __name__ == "__main__":
    main()
