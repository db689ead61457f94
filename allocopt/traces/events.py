"""Events of the Slurm simulator of UB CCR: a line per submission with the options of ``sbatch``.

``-dt 49 -e submit_batch_job | -J job2 -sim-walltime 1201 -t 00:30:00 -n 12 -p normal job.sh``;
https://github.com/ubccr-slurm-simulator/slurm_simulator.
"""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, resource_count
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.traces.csv_columns import Columns
from allocopt.traces.csv_mapping import Rows, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_INTO_LIMIT, _BELOW_A_SECOND = "no run time, time limit used", "run time 0, 1 s used"

# Options, short and long, and the columns that they become.
_COLUMNS = {
    "J": "job", "job-name": "job", "uid": "user", "N": "nodes", "nodes": "nodes", "p": "partition",
    "partition": "partition", "C": "constraint", "constraint": "constraint", "gres": "gres",
    "ntasks-per-node": "ntasks_per_node", "c": "cpus_per_task", "cpus-per-task": "cpus_per_task",
    "x": "exclude", "exclude": "exclude", "w": "required", "nodelist": "required",
    "n": "tasks", "ntasks": "tasks", "t": "limit", "time": "limit",
}  # fmt: skip
_HEADER = ("submit", "run", "estimate", "processors", "memory", "exclusive", *dict.fromkeys(_COLUMNS.values()))
_OPTION = re.compile(r"--([\w-]+)(?:=(\S*))?|-([A-Za-z][\w-]*)\s+(?!-[A-Za-z-])(\S+)")


def read_events(path: Path, damage: Damage) -> Workload:
    """Read the jobs of a file, plain or compressed (``.gz``), with what they ask of a cluster.

    A job's processors are its tasks times the cores of each. A negative ``-sim-walltime`` is a job that runs into its
    limit. Raises `BadFileError` if the file cannot be read, or no job is left.
    """
    rows: dict[int, tuple[list[str], str]] = {}
    faults: list[BadFileError] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        event, _, options = line.partition("|")
        words = event.split()
        if words and words[0][0] != "#" and words[3:] in ([], ["submit_batch_job"]):
            try:
                rows[number] = _row(words, options)
            except ValueError as error:
                faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(rows))
    if not rows:
        raise bad_file(path, "holds no jobs")
    table = Rows(path, _HEADER, list(rows), [row for row, _ in rows.values()])
    made = workload_of(table, Columns({"processors": "processors"}), damage)
    repairs = Counter(repair for _, repair in rows.values() if repair)
    return replace(made, repaired=(*repairs.items(), *made.repaired))


def _row(words: list[str], options: str) -> tuple[list[str], str]:
    """Return the cells of a submission, and what of it was repaired."""
    if words[::2] != ["-dt", "-e"]:
        raise ValueError(f"begins with {shown(' '.join(words))}, must be -dt SECONDS -e submit_batch_job")
    found = _OPTION.finditer(options)
    asked = {_COLUMNS.get(match[1] or match[3], match[1] or match[3]): match[2] or match[4] or "" for match in found}
    if "sim-walltime" not in asked:
        raise ValueError("has no -sim-walltime")
    run_s, limit_s = duration_s(asked["sim-walltime"]), duration_s(asked.get("limit", ""), 60.0)
    repair = _INTO_LIMIT if run_s < 0 else "" if run_s else _BELOW_A_SECOND
    run_s = limit_s if run_s < 0 else run_s or 1.0
    tasks, nodes, of_node, of_task = (
        int(resource_count(asked.get(name, ""), "")) for name in ("tasks", "nodes", "ntasks_per_node", "cpus_per_task")
    )
    cores = (tasks or (nodes or 1) * (of_node or 1)) * (of_task or 1)
    memory = asked.get("mem") or (f"{asked['mem-per-cpu']}c" if "mem-per-cpu" in asked else "")
    # Nodes of ``--exclusive=user`` are closed to the others, too.
    alone = "yes" if "exclusive" in asked else ""
    cells = [words[1], str(run_s), str(limit_s), str(cores), memory, alone]
    return cells + [asked.get(column, "") for column in _HEADER[6:]], repair
