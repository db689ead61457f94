"""``evolved-priority`` and other policies on logs that its training does not use, on the same variants of each log."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.cluster import Cluster
from allocopt.errors import BadFileError
from allocopt.heuristics.scheduling.multifactor import Multifactor
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, NetworkOrder, ShortestJobFirst
from allocopt.kernels.ready import make_ready
from allocopt.learned.priorities.policy import EvolvedPriority
from allocopt.learned.priorities.training import OrderTraining
from allocopt.learned.weights import shipped_weights
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.rooms import kernels_of
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import AnyScheduler, ListScheduler
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.variants import JITTER, Interval, varied_run_times
from allocopt.traces.workload import UNKNOWN_USER, Workload
from papers.pages import page_parser, write_page

LOGS = {
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", 0),
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln.swf.gz", 0),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 40_000),
    "CEA-Curie": ("CEA-Curie-2011-2.1-cln.swf.gz", 40_000),
}
"""Files of logs, and the number of their first jobs that are simulated; 0 for all."""
RULES = ("wfp3", "unicep", "sjf", "smallest-area", "f1", "f2", "f3", "f4", "evolved-formula")
AGENTS = ("rlscheduler", "dras-ppo", "dras-dql")
# Found by `allocopt train multifactor --option blocks=10 --option held_out=0 --seed 1` on the logs of `balanced`.
MULTIFACTOR = Multifactor(age=1.0, job_size=0.99, cpu=0.00002, max_age_days=365.0, small_relative_to_time=True)
MEASURES = ("mean wait", "slowdown", "99 % wait", "longest wait")
HEADER = ("policy", *MEASURES)
WAIT, LONGEST = 0, 3


def shown(values: FloatArray) -> str:
    """Format a mean over variants with its 95 % interval."""
    mean, low, high = Interval.of(values)
    return f"{mean:.3f} ({low:.3f} .. {high:.3f})"


class Rival(NamedTuple):
    """A policy, and whether it knows the users of jobs."""

    scheduler: AnyScheduler
    knows_users: bool = True


def rivals(weights: Sequence[str]) -> dict[str, Rival]:
    """Return the policies by name: EASY, its rivals, the networks, and controls of the first network."""
    sjbf = ListScheduler(FirstComeFirstServed(), Backfill.EASY, ShortestJobFirst())
    found = {"easy": Rival(as_scheduler("fcfs+easy")), "easy-sjbf": Rival(sjbf)}
    found["multifactor, tuned"] = Rival(ListScheduler(MULTIFACTOR, Backfill.EASY))
    found["easy-plus-plus"] = Rival(as_scheduler("easy-plus-plus"))
    found |= {name: Rival(as_scheduler(f"{name}+easy")) for name in RULES}
    found |= {name: Rival(as_scheduler(name)) for name in AGENTS}
    networks = {name.rpartition("/")[2]: EvolvedPriority(name) for name in weights}
    found |= {name: Rival(ListScheduler(order, Backfill.EASY)) for name, order in networks.items()}
    name, order = next(iter(networks.items()))
    found[f"{name}, users unknown"] = found[name]._replace(knows_users=False)
    permuted = np.random.default_rng(0).permutation(order.network.ravel()).reshape(order.network.shape)
    controls = {"permuted": permuted, "zero": np.zeros_like(permuted)}
    for control, network in controls.items():
        found[f"{name}, weights {control}"] = Rival(ListScheduler(NetworkOrder(network), Backfill.EASY))
    return found


def judged_logs(folder: Path, *, is_quick: bool) -> Iterator[tuple[str, Workload, int]]:
    """Yield the logs by name, with the sizes of their machines; only the first one in a quick run."""
    for log, (name, jobs) in list(LOGS.items())[: 1 if is_quick else None]:
        workload = read_workload(folder / "traces" / name)
        machine = workload.machine_processors
        if machine is None:
            raise BadFileError(f"{folder / 'traces' / name}: does not state the number of processors of the machine")
        workload = workload.fitting(machine)
        yield log, workload.stretch(0, jobs or len(workload)), machine


def found_weights(training: OrderTraining, seed: int) -> dict[str, FloatArray]:
    """Return the weights that a training finds, by name."""
    learner, _ = training.trained(seed)
    _, weights, _ = training.result(learner)
    return {name: array.astype(np.float64) for name, array in weights.items()}


def measures(workload: Workload, machine: int | Cluster, rival: Rival) -> list[float]:
    """Return mean wait, mean bounded slowdown, the wait that 99 % of the jobs do not exceed, and the longest wait."""
    if not rival.knows_users:
        workload = replace(workload, users=np.full(len(workload), UNKNOWN_USER))
    times = simulate(workload, machine, rival.scheduler).job_times
    wait, slowdown = times.wait_s, times.bounded_slowdown
    return [float(wait.mean()), float(slowdown.mean()), float(np.percentile(wait, 99)), float(wait.max())]


def measured(
    workload: Workload, machine: int | Cluster, found: Mapping[str, Rival], variants: int
) -> dict[str, FloatArray]:
    """Return the measures of each policy over those of EASY, variant by variant, shape ``(variants, 4)``."""
    for rival in found.values():
        make_ready(kernels_of(machine, rival.scheduler, is_built_in_only=True))
    rng = np.random.default_rng(20_260)
    others = [varied_run_times(workload, rng) for _ in range(variants)]
    runs = [(other, machine, rival) for rival, other in product(found.values(), others)]
    # Policies in Python hold the GIL, so that threads would block one another.
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        values = np.array(list(pool.map(measures, *zip(*runs, strict=True))))
    values = values.reshape(len(found), variants, len(MEASURES))
    return {name: values[at] / values[0] for at, name in enumerate(found)}


def verdict(log: str, found: Mapping[str, FloatArray], network: str) -> list[Cell]:
    """Return the comparison of a network with WFP3 and UNICEP on a log, by paired differences of mean waits."""
    better = min(("wfp3", "unicep"), key=lambda name: float(found[name][:, WAIT].mean()))
    differences = [shown(found[network][:, WAIT] - found[name][:, WAIT]) for name in ("wfp3", "unicep")]
    ratio = shown(found[network][:, WAIT] / found[better][:, WAIT])
    return [log, network, *differences, better, ratio, float(found[network][:, LONGEST].mean())]


def main() -> None:
    parser = page_parser(__doc__, "two variants of KTH-SP2", "the traces of the logs")
    parser.add_argument("--variants", type=int, default=20, help="variants of each log")
    parser.add_argument(
        "--weights", nargs="+", default=shipped_weights("evolved-priority"), help="names of shipped weights, or files"
    )
    asked = parser.parse_args()
    found = rivals(asked.weights)
    networks = [name.rpartition("/")[2] for name in asked.weights]
    sections, verdicts = [], []
    for log, workload, machine in judged_logs(asked.data, is_quick=asked.quick):
        of_log = measured(workload, machine, found, 2 if asked.quick else asked.variants)
        rows = [[name, *map(shown, values.T)] for name, values in of_log.items()]
        table = aligned_table(HEADER, rows, (None,) * len(HEADER))
        print(f"{log}\n{table}", flush=True)
        sections.append(f"## {log}\n\n{table}")
        verdicts += [verdict(log, of_log, network) for network in networks]
    columns = ("log", "weights", "beside WFP3", "beside UNICEP", "better rule", "mean wait over its", "longest wait")
    table = aligned_table(columns, verdicts, (None,) * 6 + (3,))
    sections.insert(0, f"## Beside WFP3 and UNICEP\n\n{table}")
    write_page(
        "evolved_priority",
        "An evolved queue order beside rules",
        "A network that was evolved on five logs orders the queues of four others. With weights `balanced` jobs wait "
        "9 to 30 % less than under the better of WFP3 and UNICEP, and the intervals exclude 0 on every log. The "
        "longest waits are 0.98 to 1.43 times EASY's. A formula of three features, `evolved-formula`, has similar "
        "mean waits. The best other learned agent is `dras-ppo`: on CTC-SP2 jobs wait 4 % less under it than under "
        "the network; under `rlscheduler` and `dras-dql` they wait longer on all four logs.",
        sections,
        "All measures are relative to those of EASY on the same variant: means over variants with 95 % intervals. In "
        f"a variant run times are multiplied by exp(N(0, {JITTER})). All policies backfill as EASY does. Differences "
        "of mean waits are paired, in units of EASY's.",
        is_quick=asked.quick,
    )


if __name__ == "__main__":
    main()
