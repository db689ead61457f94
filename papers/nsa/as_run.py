"""Results of the NSA authors' program: Tables III and IV and Figures 5 and 6, in its own windows and walk.

See `papers.nsa.authors` for its windows and `papers.nsa.cost_level` for the level of its costs.
"""

from collections.abc import Iterator
from itertools import count, islice
from statistics import fmean

from allocopt.arrays import IntArray
from allocopt.learned.nsa.networks import NETWORKS
from allocopt.learned.nsa.solver import Nsa
from allocopt.problems.topology import TopologyProblem
from allocopt.reproduction import Records
from papers.artifact import Artifact, Asked, Number, Record, mean_of, seed_and_name
from papers.nsa import tables
from papers.nsa.authors import AUTHORS_CLUSTER, Conventions, Nodes, job_by_job, mean_cost_and_wait, periods
from papers.nsa.cost_level import (
    INTERPRETED,
    METHODS,
    PRINTED,
    PROGRAM,
    Reading,
    drawn_starts,
    mean_costs,
    solved_periods,
)
from papers.nsa.figures import JOBS, PERIODS_S
from papers.nsa.interpreted import InterpretedWalk
from papers.nsa.tables import (
    AS_RUN,
    AVERAGE,
    LEADER,
    OPTIMUM,
    PUBLISHED,
    WALK,
    Method,
    epoch_keys,
    epoch_of,
    improvement,
    read_paper_workload,
)

AS_PROGRAMMED = Reading(PROGRAM, "period", leaders=(LEADER, OPTIMUM), methods=INTERPRETED)
"""All conventions of the program: its windows and walk; the better of `LEADER` and `OPTIMUM` decides what starts."""


def _tables_record(asked: Asked, piece: str) -> Record:
    first = drawn_starts(asked, read_paper_workload(asked), seed_and_name(piece)[0])[epoch_of(piece) - 1]
    return {"cost": mean_costs(asked, first, AS_PROGRAMMED)}


def _tables_numbers(records: Records) -> Iterator[Number]:
    every = [record["cost"] for record in records.values()]
    for name, printed in PRINTED.items():
        found = mean_of(AVERAGE, f"{name} cost", [cost[name] for cost in every], printed)
        yield found
        yield Number(AVERAGE, f"{name} error, %", 100 * ((found.ours or 0.0) / printed - 1), None, len(every))
    three, four = (PUBLISHED[table][AVERAGE] for table in ("table3", "table4"))
    for than, column, published in (
        ("SA-1000", "Impr. % on SA-1000", three["Impr. % on SA-1000"]),
        ("SA-500", "Impr. % on SA-500", 100 * (1 - three[f"{LEADER} cost"] / three["SA-500 cost"])),
        (OPTIMUM, f"Impr. % on {OPTIMUM}", four[f"Impr. % of {LEADER} on {OPTIMUM}"]),
    ):
        yield mean_of(AVERAGE, column, [improvement(cost, LEADER, than) for cost in every], published)


TABLES_AS_RUN = Artifact(
    "nsa-tables-authors",
    "Tables III and IV of the NSA paper with the conventions of the authors' program",
    epoch_keys,
    _tables_record,
    _tables_numbers,
)

TIMED: dict[str, tuple[Method, Method]] = {
    "compiled": (METHODS["SA-1000"], METHODS[LEADER]),
    "plain Python and torch": (INTERPRETED["SA-1000"], INTERPRETED[LEADER]),
    "the same, all jobs costed by pairs of nodes": (
        Method(InterpretedWalk(1000, by_pairs=True), "free"),
        Method(InterpretedWalk(500, "cnn-3", by_pairs=True), "free"),
    ),
}
"""SA-1000 and NSA-500, by implementation."""
TIMED_EVERY, QUICK_TIMED_EVERY = 25, 2
"""One window out of this number is timed."""


def _time_record(asked: Asked, piece: str) -> Record:
    epoch = epoch_of(piece)
    workload, every = read_paper_workload(asked), asked.size(TIMED_EVERY, QUICK_TIMED_EVERY)
    first = drawn_starts(asked, workload, seed_and_name(piece)[0])[epoch - 1]
    solved = solved_periods(workload, first, PROGRAM, {OPTIMUM: METHODS[OPTIMUM]}, (OPTIMUM,))
    numbered = enumerate(islice(solved, asked.size(tables.WINDOWS, tables.QUICK_WINDOWS)), 1)
    windows = [period.window for number, (period, _) in numbered if period.window and number % every == 0]
    return {
        name: [[1e3 * method.solve(window, epoch).runtime_s for window in windows] for method in pair]
        for name, pair in TIMED.items()
    }


def _time_numbers(records: Records) -> Iterator[Number]:
    printed = PUBLISHED["table3"][AVERAGE]
    for name in TIMED:
        means = []
        for place, column in enumerate(("SA-1000", LEADER)):
            values = [value for record in records.values() for value in record[name][place]]
            means.append(fmean(values))
            yield mean_of(name, f"{column} ms", values, 1e3 * printed[f"{column} s"])
        ratio = printed[f"{LEADER} s"] / printed["SA-1000 s"]
        yield Number(name, f"{LEADER} over SA-1000", means[1] / means[0], ratio, len(values))


SAME_TIME = Artifact(
    "nsa-same-time",
    "Table III of the NSA paper: the time of SA-1000 and NSA-500, compiled and in plain Python",
    epoch_keys,
    _time_record,
    _time_numbers,
)

STEPS, QUICK_STEPS = (500, 1000), (500,)


def _networks_record(asked: Asked, piece: str) -> Record:
    methods = {LEADER: METHODS[LEADER]}
    for steps in asked.size(STEPS, QUICK_STEPS):
        methods[f"SA-{2 * steps}"] = Method(WALK, "free", 2 * steps)
        for network in NETWORKS:
            solver = Nsa(network, AS_RUN.hottest, AS_RUN.coldest, sharpness=1.0, walk="published")
            methods[f"{network} NSA-{steps}"] = Method(solver, "free", steps)
    workload = read_paper_workload(asked)
    first = drawn_starts(asked, workload, seed_and_name(piece)[0])[epoch_of(piece) - 1]
    return mean_costs(asked, first, Reading(PROGRAM, "period", methods=methods))


def _networks_numbers(records: Records) -> Iterator[Number]:
    every = list(records.values())
    for steps in (steps for steps in STEPS if f"SA-{2 * steps}" in every[0]):
        row, walk = f"{steps} steps", f"SA-{2 * steps}"
        for network in NETWORKS:
            gains = [improvement(record, f"{network} NSA-{steps}", walk) for record in every]
            yield mean_of(row, f"{network} Impr. % on {walk}", gains, PUBLISHED["figure5"][row][network])
        yield mean_of(row, f"{walk} cost", [record[walk] for record in every])


NETWORKS_AS_RUN = Artifact(
    "nsa-figure5-authors",
    "Figure 5 of the NSA paper in the authors' windows: six networks against SA with twice the steps",
    epoch_keys,
    _networks_record,
    _networks_numbers,
)

_SECONDS = PUBLISHED["table3"][AVERAGE]
WINDOWED: dict[str, tuple[Method, float]] = {
    "SA-500": (METHODS["SA-500"], _SECONDS["SA-500 s"]),
    "SA-500 in the authors' walk": (INTERPRETED["SA-500"], _SECONDS["SA-500 s"]),
    LEADER: (METHODS[LEADER], _SECONDS[f"{LEADER} s"]),
}
"""Methods, and their seconds per window. It is not known which of them gave the published windows; annealing is the
default of the program."""


def _six_record(asked: Asked, piece: str) -> Record:
    epoch = epoch_of(piece)
    workload = read_paper_workload(asked).stretch(JOBS * (epoch - 1), JOBS)

    def measured(period_s: float, method: Method, solving_s: float) -> dict[str, float]:
        numbers = count(1000 * epoch)

        def allocate(problem: TopologyProblem) -> Nodes:
            nodes: tuple[IntArray, ...] = method.solve(problem, next(numbers)).found().nodes
            return nodes

        conventions = Conventions(solving_s=solving_s, period_s=period_s)
        started = [one for period in periods(workload, conventions, allocate) for one in period.started]
        return mean_cost_and_wait(workload, AUTHORS_CLUSTER, started)

    one_by_one = {
        name: mean_cost_and_wait(workload, AUTHORS_CLUSTER, job_by_job(workload, backfills=name == "BF"))
        for name in ("FCFS", "BF")
    }
    return one_by_one | {
        f"windows of {period_s} s, {name}": measured(period_s, method, solving_s)
        for period_s in PERIODS_S
        for name, (method, solving_s) in WINDOWED.items()
    }


def _six_numbers(records: Records) -> Iterator[Number]:
    rows = next(iter(records.values()))
    for row in rows:
        printed_row = row.split(",")[0]
        for measure in ("cost", "wait s"):
            printed = [
                PUBLISHED["figure6"][f"epoch {epoch_of(piece)}"][f"{printed_row} {measure}"] for piece in records
            ]
            ours = [record[row][measure] for record in records.values()]
            yield mean_of(row, measure, ours, fmean(printed))
            # The authors truncate numbers to integers.
            alike = sum(int(mine) == its for mine, its in zip(ours, printed, strict=True))
            yield Number(row, f"{measure}: epochs that are the published ones", alike, len(printed), len(printed))


SIX_AS_RUN = Artifact(
    "nsa-figure6-authors",
    "Figure 6 of the NSA paper with the conventions of the authors' program",
    epoch_keys,
    _six_record,
    _six_numbers,
)
