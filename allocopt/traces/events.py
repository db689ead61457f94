"""Events of the Slurm simulator of UB CCR: a line per submission with the options of ``sbatch``.

``-dt 49 -e submit_batch_job | -J job2 -sim-walltime 1201 -t 00:30:00 -n 12 -p normal job.sh``;
https://github.com/ubccr-slurm-simulator/slurm_simulator.
"""

import re
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

RUNS_INTO_LIMIT = "no run time, time limit used"
BELOW_A_SECOND = "run time 0, 1 s used"

# Long names of options, and the columns that they become.
_SHORT = {
    "J": "job-name",
    "n": "ntasks",
    "N": "nodes",
    "t": "time",
    "p": "partition",
    "C": "constraint",
    "c": "cpus-per-task",
}
_SHORT |= {"x": "exclude", "w": "nodelist"}
_COLUMNS = {
    "job-name": "job", "uid": "user", "nodes": "nodes", "partition": "partition", "constraint": "constraint",
    "gres": "gres", "ntasks-per-node": "ntasks_per_node", "cpus-per-task": "cpus_per_task", "exclude": "exclude",
    "nodelist": "required",
}  # fmt: skip
_HEADER = (*_COLUMNS.values(), "submit", "run", "estimate", "processors", "memory", "exclusive")
_OPTION = re.compile(r"--([\w-]+)(?:=(\S*))?|-([A-Za-z][\w-]*)\s+(?!-[A-Za-z-])(\S+)")


def read_events(path: Path, damage: Damage) -> Workload:
    """Read the jobs of a file, plain or compressed (``.gz``), with what they ask of a cluster.

    A job's processors are its tasks times the cores of each. A negative ``-sim-walltime`` is a job that runs into its
    limit. Raises `BadFileError` if the file cannot be read, or no job is left.
    """
    numbers: list[int] = []
    rows: list[list[str]] = []
    repairs: dict[str, set[int]] = {RUNS_INTO_LIMIT: set(), BELOW_A_SECOND: set()}
    faults: dict[int, BadFileError] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            row, repair = _row(line)
        except ValueError as error:
            faults[number] = bad_file(path, f"line {number}", str(error))
            continue
        if row:
            numbers.append(number)
            rows.append(row)
        if repair:
            repairs[repair].add(number)
    damage.drop(list(faults), faults.__getitem__)
    if not rows:
        raise damage.first or bad_file(path, "holds no jobs")
    made = workload_of(Rows(path, _HEADER, numbers, rows), Columns({"processors": "processors"}), damage)
    told = tuple((reason, len(jobs)) for reason, jobs in repairs.items() if jobs)
    return replace(made, repaired=(*told, *made.repaired))


def _row(line: str) -> tuple[list[str], str]:
    """Return the cells of a line, none for other events than submissions, and what of it was repaired."""
    event, bar, options = line.partition("|")
    words = event.split()
    if words[::2] != ["-dt", "-e"] or len(words) != 4:
        raise ValueError(f"begins with {shown(event.strip())}, must be -dt SECONDS -e EVENT")
    if words[3] != "submit_batch_job":
        return [], ""
    asked = {_SHORT.get(m[3], m[3]) or m[1]: (m[4] or m[2] or "") for m in _OPTION.finditer(options)}
    cells = {column: asked.get(option, "") for option, column in _COLUMNS.items()}
    estimate_s = duration_s(asked.get("time", ""), 60.0)
    run, repair = asked.get("sim-walltime", ""), ""
    if not bar or not run:
        raise ValueError("has no -sim-walltime")
    run_s = duration_s(run)
    if run_s < 0:
        run_s, repair = estimate_s, RUNS_INTO_LIMIT
    elif run_s == 0:
        run_s, repair = 1.0, BELOW_A_SECOND
    tasks = int(resource_count(asked.get("ntasks", ""), "task"))
    if not tasks:
        nodes, of_node = (int(resource_count(cells[name], "node")) or 1 for name in ("nodes", "ntasks_per_node"))
        tasks = nodes * of_node
    cores = tasks * (int(resource_count(cells["cpus_per_task"], "cpu")) or 1)
    memory = asked.get("mem") or (f"{asked['mem-per-cpu']}c" if "mem-per-cpu" in asked else "")
    # Nodes of ``--exclusive=user`` are closed to the others, too.
    alone = "yes" if "exclusive" in asked else ""
    return [*cells.values(), words[1], str(run_s), str(estimate_s), str(cores), memory, alone], repair
