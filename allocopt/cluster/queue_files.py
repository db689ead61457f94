"""Files of jobs that wait: what ``scontrol show job`` and ``squeue`` print, and lists of ids and numbers of nodes."""

from pathlib import Path

from allocopt.cluster.slurm_jobs import ListedJobs, Queue, queue_of
from allocopt.cluster.slurm_records import json_jobs, printed_jobs
from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import AllocoptError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json, read_text, read_yaml

NO_JOBS = "No jobs in the system"
"""What ``scontrol show job`` prints where there are none."""


def read_queue(path: Path) -> Queue:
    """Read the jobs of a file; raise `BadFileError`, which names the place, if it is none of these."""
    if path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
        return _answered(read_yaml(path), path)
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return _answered(parse_json(text, path), path)
    if text.strip() == NO_JOBS:
        return Queue()
    if "JobState=" in text:
        return queue_of(printed_jobs(path, text))
    listed = ListedJobs(LARGEST_CLUSTER)
    lines = text.splitlines()
    header = lines[0].split() if lines else []
    is_table = "JOBID" in header
    if is_table and not {"ST", "STATE"} & set(header):
        fault = 'is a table of squeue without states; print it with `squeue`, or with `squeue -h -t PD -o "%i %D"`'
        raise bad_file(path, "line 1", fault)
    for number, line in enumerate(lines[is_table:], 1 + is_table):
        if line.strip():
            place = f"{path}: line {number}"
            add_listed(listed, line, place, type(bad_file(path, "")), is_row=is_table)
    return Queue(tuple(listed.jobs.values()), tuple(listed.remarks()))


def add_listed(
    listed: ListedJobs, text: str, where: str, refusal: type[AllocoptError], *, is_row: bool = False
) -> None:
    """Add the jobs of a line to others; what is wrong with it is an error of a type, which names where it stands."""
    try:
        (listed.add_row if is_row else listed.add)(text)
    except ValueError as error:
        raise refusal(f"{where}: {error}") from None


def _answered(obj: object, path: Path) -> Queue:
    jobs = obj.get("jobs") if isinstance(obj, dict) else None
    if not isinstance(jobs, list):
        fault = "has no list of jobs, must be what `squeue --json` or `scontrol show job --json` prints"
        raise bad_file(path, "top level" if isinstance(obj, dict) else f"is {shown(obj)}", fault)
    return queue_of((line, "") for line in json_jobs(path, jobs))
