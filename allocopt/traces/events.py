"""Event files of UB CCR's Slurm simulator: one line per submission, with options of ``sbatch``."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from allocopt.cluster.tres import demands_of, licenses_of
from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, memory_mib, resource_count
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import OF_CORE, OF_JOB, OF_NODE, OF_TASK, Asked
from allocopt.traces.csv_columns import Columns
from allocopt.traces.dependencies import preceding_job
from allocopt.traces.jobs import JobRecord, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.sbatch_options import DEMANDS, KNOWN, NOT_MODELLED, options_of
from allocopt.traces.workload import Workload

INTO_LIMIT, BELOW_A_SECOND = "no run time, time limit used", "run time 0, 1 s used"

_WALLTIME = "sim-walltime"
_OWN = {_WALLTIME: _WALLTIME, "jid": "jid"}
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def read_events(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the submissions of a file.

    Example: ``-dt 49 -e submit_batch_job | -J job2 -sim-walltime 1201 -t 00:30:00 -n 12 -p normal job.sh``. See
    https://github.com/ubccr-slurm-simulator/slurm_simulator. A job's processors are its tasks times the cores of each.
    A job with a negative ``-sim-walltime`` runs until its limit. Jobs are numbered by submission, and dependencies
    refer to these numbers. Raises `BadFileError` if no job is left.
    """
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    skipped: Counter[str] = Counter()
    submissions = 0
    for number, line in enumerate(text.splitlines(), 1):
        event, _, options = line.partition("|")
        words = event.split()
        if not words or words[0].startswith("#"):
            continue
        if words[3:] not in ([], ["submit_batch_job"]):
            skipped[f"events {' '.join(words[3:4])} are not modelled"] += 1
            continue
        submissions += 1
        try:
            if words[::2] != ["-dt", "-e"]:
                raise ValueError(f"begins with {shown(' '.join(words))}, must be -dt SECONDS -e submit_batch_job")
            records.append(_record(f"line {number}", submissions, words[1], options))
        except ValueError as error:
            faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(records))
    if not records:
        raise bad_file(path, "holds no jobs")
    return workload_of(path, records, damage, skipped=skipped, ignored=columns.ignored)


def _record(place: str, number: int, submitted: str, text: str) -> JobRecord:
    options = list(options_of(text, _OWN))
    given = {option.name: option.value for option in options}
    if _WALLTIME not in given:
        raise ValueError("has no -sim-walltime")
    run_s, limit_s = duration_s(given[_WALLTIME]), duration_s(given.get("time", ""), 60.0)
    remarks = [INTO_LIMIT] if run_s < 0 else [] if run_s else [BELOW_A_SECOND]
    run_s = limit_s if run_s < 0 else run_s or 1.0
    asked, names = _asked(given)
    for what, named in (("modelled", given.keys() & NOT_MODELLED), ("understood", given.keys() - KNOWN - _OWN.keys())):
        if named:
            remarks.append(f"options not {what}, ignored: {', '.join(sorted(f'--{name}' for name in named))}")
    after, waits = preceding_job(given.get("dependency", ""))
    demands = {*names, *asked.not_modelled(), *(f"--{name}" for name in given.keys() & DEMANDS)}
    return JobRecord(
        place=place,
        number=number,
        job="",
        name=given.get("job-name", ""),
        submit=instant_s(submitted),
        run=run_s,
        estimate=limit_s,
        size=asked.processors,
        user=given.get("uid", ""),
        account=given.get("account", ""),
        request=asked.request(),
        after=after,
        asks_for=tuple(sorted(demands)),
        remarks=(*remarks, waits) if waits else tuple(remarks),
    )


def _asked(given: Mapping[str, str]) -> tuple[Asked, list[str]]:
    # The demands of the options, and the names of demands that a request cannot express.
    tasks, of_node, of_task = (
        int(resource_count(given.get(name, ""), "")) for name in ("ntasks", "ntasks-per-node", "cpus-per-task")
    )
    nodes, most_nodes, names = _nodes(given.get("nodes", ""))
    gpus, gpus_of, others = _gpus(given)
    names += [*others, *licenses_of(given.get("licenses", ""))]
    every_gpu = sum(amount for _, amount in gpus) * {OF_NODE: nodes or 1, OF_TASK: tasks or 1}.get(gpus_of, 1)
    if "ntasks-per-gpu" in given and not tasks:
        tasks = int(resource_count(given["ntasks-per-gpu"], "") * every_gpu)
    if "cpus-per-gpu" in given:
        if gpus_of != OF_TASK:
            names.append("--cpus-per-gpu")
        of_task = int(resource_count(given["cpus-per-gpu"], "") * sum(amount for _, amount in gpus))
    memory, memory_of = _memory(given, gpus, gpus_of)
    if given.get("exclusive") == "topo":
        names.append("--exclusive=topo")
    cores = (tasks or (nodes or 1) * (of_node or 1)) * (of_task or 1)
    asked = Asked(
        nodes=nodes,
        most_nodes=most_nodes,
        processors=cores,
        tasks_per_node=of_node,
        cores_per_task=of_task,
        is_spread=False,
        gpus=gpus,
        gpus_of=gpus_of,
        memory_mib=memory,
        memory_of=memory_of,
        is_all_memory=memory_of == OF_NODE and memory == 0 and "mem" in given,
        partition=given.get("partition", ""),
        constraint=given.get("constraint", ""),
        excluded=given.get("exclude", ""),
        required=given.get("nodelist", ""),
        # Nodes of ``--exclusive=user`` are closed to other users, so the job counts as exclusive.
        is_exclusive="exclusive" in given,
    )
    return asked, names


def _nodes(text: str) -> tuple[int, float, list[str]]:
    # The least and the most nodes, and the names of demands that a request cannot express.
    found = _RANGE.fullmatch(text)
    if found is None:
        count = int(resource_count(text, "node")) if not re.search("[,:]", text) else 0
        return count, count, [] if count or not text else [f"--nodes={text}"]
    least, most = int(found[1]), float(found[2] or found[1])
    if most < least:
        raise ValueError(f"has --nodes={shown(text)}, must be a number or a range such as 2-4")
    return least, most, []


def _gpus(given: Mapping[str, str]) -> tuple[tuple[tuple[str, float], ...], str, list[str]]:
    # GPUs by type, the unit that they refer to, and the names of other demands.
    gpus: tuple[tuple[str, float], ...] = ()
    gpus_of = OF_JOB
    names: list[str] = []
    for option, of in (("gpus-per-task", OF_TASK), ("tres-per-task", OF_TASK), ("gpus-per-node", OF_NODE),
                       ("gres", OF_NODE), ("gpus", OF_JOB)):  # fmt: skip
        text = given.get(option, "")
        if option.startswith("gpus") and text:
            text = ",".join(f"gpu:{part}" for part in text.split(","))
        held = demands_of(text)
        names += held.others
        if option == "tres-per-task" and re.search(r"(cpu|mem)[=:]", text):
            names.append("--tres-per-task=cpu or mem")
        if held.gpus and not gpus:
            gpus, gpus_of = held.gpus, of
    return gpus, gpus_of, names


def _memory(given: Mapping[str, str], gpus: tuple[tuple[str, float], ...], gpus_of: str) -> tuple[float, str]:
    if "mem-per-cpu" in given:
        return memory_mib(given["mem-per-cpu"])[0], OF_CORE
    if "mem-per-gpu" in given and gpus:
        return memory_mib(given["mem-per-gpu"])[0] * sum(amount for _, amount in gpus), gpus_of
    return memory_mib(given.get("mem", ""))[0], OF_NODE
