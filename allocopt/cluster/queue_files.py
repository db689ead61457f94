"""Files of waiting jobs: output of ``scontrol show job`` and ``squeue``, and lists of ids and numbers of nodes."""

import re
from dataclasses import replace
from pathlib import Path

from allocopt.cluster.foreign import foreign_object, foreign_text
from allocopt.cluster.objects import object_in_words
from allocopt.cluster.slurm_jobs import ListedJobs, Queue, queue_of, table_request
from allocopt.cluster.slurm_records import json_jobs, printed_jobs
from allocopt.cluster.slurm_tables import is_sinfo, is_squeue, squeue_records, with_titles
from allocopt.cluster.topology import LARGEST_CLUSTER
from allocopt.errors import AllocoptError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json, read_text, read_yaml, without_compression

NO_JOBS = "No jobs in the system"
"""Output of ``scontrol show job`` if there are none."""
_RIGHT = "a queue is what `scontrol show job` or `squeue` prints, also with --json"


def read_queue(path: Path) -> Queue:
    """Read the waiting jobs of a file. Raises `BadFileError`, which names the place, if it is not a file of jobs."""
    if without_compression(path.name).endswith((".yaml", ".yml")):
        return _answered(read_yaml(path), path)
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return _answered(parse_json(text, path), path)
    if text.strip() == NO_JOBS:
        return Queue()
    if "JobState=" in text:
        return queue_of(printed_jobs(path, text))
    _check_is_queue(text, path)
    text = with_titles(text)
    if is_squeue(text):
        found = queue_of(squeue_records(path, text), table_request)
        whole = f"jobs of a table, which get whole nodes: {len(found.jobs)}"
        return replace(found, remarks=(whole, *found.remarks)) if found.jobs else found
    listed = ListedJobs(LARGEST_CLUSTER)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            add_listed(listed, line, f"{path}: line {number}", type(bad_file(path, "")))
    return Queue(tuple(listed.jobs.values()), tuple(listed.remarks()))


def _check_is_queue(text: str, path: Path) -> None:
    """Raise `BadFileError` for a description of a cluster, and for output of other programs."""
    if (told := foreign_text(text)) is not None:
        raise bad_file(path, f"{told}; {_RIGHT}")
    if is_sinfo(text) or re.match(r"\s*(NodeName|PartitionName|ReservationName|SwitchName)=", text):
        raise bad_file(path, f"describes a cluster and no jobs: give it with --cluster; {_RIGHT}")


def add_listed(listed: ListedJobs, text: str, where: str, refusal: type[AllocoptError]) -> None:
    """Add the jobs of a line to ``listed``. Raises ``refusal``, which names the place, if the line is invalid."""
    try:
        listed.add(text)
    except ValueError as error:
        raise refusal(f"{where}: {error}") from None


def _answered(obj: object, path: Path) -> Queue:
    if (told := foreign_object(obj)) is not None:
        raise bad_file(path, f"{told}; {_RIGHT}")
    if not isinstance(obj, dict):
        raise bad_file(path, f"is {shown(obj)}, holds no list of jobs; {_RIGHT}")
    if (told := object_in_words(obj)) is not None:
        raise bad_file(path, f"is {told}; {_RIGHT}")
    jobs = obj.get("jobs")
    if not isinstance(jobs, list):
        raise bad_file(path, f"has no list of jobs; {_RIGHT}")
    return queue_of((line, "") for line in json_jobs(path, jobs))
