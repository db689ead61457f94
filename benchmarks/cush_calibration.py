"""Fits the penalties of the locality model to Table 1 of the CuSH paper, by a seeded search.

A single table for both machines is fitted to 54 numbers: NTAT, waits and rewards of the eight baselines of each
machine, and those of CuSH, for which shortest job first with the right policy for every job stands, because it
resembles CuSH (Figure 5). Without CuSH's numbers, penalties of 0 fit best. The search (CMA-ES) minimizes the mean
fourth power of ``ln(ours / paper)``, plus a cost for every rule whose better policy is not the paper's. It has nine
parameters: the largest request, and for each type the penalty of the right policy and the additional penalty of the
wrong policy, both at 0 and at 512 GPUs. ``--falling`` allows penalties to fall with the number of GPUs; ``--requested``
divides NTAT by the requested time, not by the service time. The search uses only training jobsets; the printed errors
are of other jobsets. Needs the extra train.
"""

import argparse

import numpy as np
from cmaes import CMA

from allocopt.arrays import FloatArray
from allocopt.simulator.locality import SHARE, SIERRA_TABLE, Line, PenaltyTable, Policy, WorkloadType
from papers.cush.penalties import COLUMNS, PRINTED, Penalties, steps

RIGHT = {WorkloadType.COMPUTE: Policy.DEPTH_FIRST, WorkloadType.NETWORK: Policy.BREADTH_FIRST}
GPUS = 512
"""Each line is defined by its values at 0 and at this number of GPUs."""
ORDER_WEIGHT, MARGIN = 0.3, 0.004
"""Cost per logarithm by which a pair of policies misses the printed order, and the margin of the right order."""
CHECK = range(500_000, 500_600)
"""Seeds of the jobsets for the printed errors."""


def decoded(numbers: FloatArray, *, rising: bool) -> tuple[float, PenaltyTable]:
    """Return the largest request and the table that the nine numbers of the search encode."""
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
    """Return the numbers that encode a table, or the nearest one that they can represent."""
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
    """Return the loss that the search minimizes."""
    errors = np.log(values / PRINTED)
    missing = np.maximum(0.0, MARGIN - steps(values) * np.sign(steps(PRINTED)))
    return float((errors**4).mean() ** 0.25 + ORDER_WEIGHT * missing.sum())


def report(penalties: Penalties) -> None:
    """Print the coefficients, and their errors on jobsets that the search does not use."""
    values = penalties.means(CHECK)
    errors, wrong = np.abs(np.log(values / PRINTED)), steps(values) * steps(PRINTED) < 0
    print(f"loss {loss_of(values):.3f}, share {penalties.share:.3f}")
    for (kind, policy), line in sorted(penalties.table.lines.items()):
        print(f"  {kind.label}, {policy.label}: {line.base:.3f} + {line.per_gpu:.5f} per GPU")
    for number, column in enumerate(COLUMNS):
        of = errors[..., number]
        print(f"  {column}: largest |ln| {of.max():.3f}, mean {of.mean():.3f}, {wrong[..., number].sum()} of 8 wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=60, help="number of training jobsets, with seeds from 0 on")
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--population", type=int, default=14)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--falling", action="store_true", help="allow penalties to fall with the number of GPUs")
    parser.add_argument("--requested", action="store_true", help="divide NTAT by the requested time")
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
