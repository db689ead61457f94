"""Exact DCAS: what it takes, and its steps from the window to the proof."""

from allocopt.problems.encoding import encode
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.sizes import rounded
from formulations.dynamic.dcas.classes import bits_of, class_sizes, classes_of
from formulations.dynamic.dcas.decoding.decoder import Decoder
from formulations.dynamic.dcas.prices.ascent import good_prices, no_prices
from formulations.dynamic.dcas.search import Nesting, search
from formulations.dynamic.dcas.sequence import MOST_LEVELS, cuts, distinct_levels, sequence_from

LARGEST_INDEX = 20_000_000
"""Entries of the tables whose size is known beforehand: 160 MB."""

BITS = 62

MANY_JOBS = 6
"""Rounds of so many jobs are long enough to pay for a second ascent of the prices."""

DECODES = 100
"""How often the jobs are placed one after the other, without prices and with them."""


def dcas_refusal(problem: TopologyProblem) -> str | None:
    """Why the window cannot be taken under DCAS, or None."""
    encoding = encode(problem)
    groups, _ = distinct_levels(encoding)
    if len(groups) > MOST_LEVELS:
        return f"{len(groups)} levels of switches below the top tell its idle nodes apart, dcas takes {MOST_LEVELS}"
    if len(cuts(groups)) == 0:
        return "idle nodes of a switch do not follow each other in the circular sequence, as dcas needs"
    sizes, counts = class_sizes(encoding)
    if bits_of(counts) > BITS:
        return f"its jobs take {bits_of(counts)} bits to count by size, dcas takes {BITS}"
    n_leaves = 1 if len(groups) == 0 else int(groups[0].max()) + 1
    largest = int(encoding.sizes.max()) + 1
    entries = len(sizes) * (n_leaves * largest * largest + encoding.n_idle * (int(sizes.max()) + 1))
    if entries > LARGEST_INDEX:
        return f"its dcas tables would have {rounded(entries)} entries, the largest taken are {LARGEST_INDEX:,}"
    return None


def search_dcas(problem: TopologyProblem, run: Run) -> StopReason:
    """Search the window to proof, or as long as time and room last; the run has an incumbent."""
    encoding = encode(problem)
    groups, weights = distinct_levels(encoding)
    cut = int(cuts(groups)[0])
    sequence, classes = sequence_from(groups, weights, cut), classes_of(encoding)
    decoder = Decoder.of(problem, sequence, classes, cut)
    prices = no_prices(sequence, classes)
    run.prove(prices.bound)
    decoder.improve(prices, DECODES, run)
    for _ in range(1 if len(problem.jobs) < MANY_JOBS else 2):
        if run.objective is not None and not run.is_proved():
            # The better the incumbent, the better the steps of the prices, and the other way round.
            prices = good_prices(sequence, classes, prices, run.objective, run.clock)
            run.prove(prices.bound)
            decoder.improve(prices, DECODES, run)
    if not run.is_proved() and not run.clock.expired():
        nesting = Nesting.of(sequence, classes, prices)
        if nesting.fill_reach(run.clock):
            search(nesting, decoder, prices, run)
    return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.COMPLETED
