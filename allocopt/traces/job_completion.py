"""The text log of Slurm's job completion plugin (``JobCompType=jobcomp/filetxt``), one line per ended job."""

import re
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.traces.csv_columns import Columns
from allocopt.traces.records import Damage
from allocopt.traces.rows import Rows
from allocopt.traces.workload import Workload

# Keys, each with the name of the ``sacct`` column of the same meaning. TimeLimit is in minutes.
_COLUMNS = {
    "JobId": "JobIDRaw",
    "UserId": "User",
    "Account": "Account",
    "JobState": "State",
    "Partition": "Partition",
    "TimeLimit": "TimelimitRaw",
    "SubmitTime": "Submit",
    "StartTime": "Start",
    "EndTime": "End",
    "NodeList": "NodeList",
    "NodeCnt": "AllocNodes",
    "ProcCnt": "AllocCPUS",
    "Tres": "ReqTRES",
    "ReservationName": "Reservation",
    "HetJobId": "het_job_id",
    "HetJobOffset": "het_job_offset",
}
# Other keys. Names of jobs, folders and reservations may hold spaces, so a value extends to the next known key.
_OTHERS = (
    "GroupId Name WorkDir Gres QOS WcKey Cluster EligibleTime ArrayJobId ArrayTaskId "
    "DerivedExitCode ExitCode SessionId".split()
)
_KEY = re.compile(rf"(?:^| )({'|'.join((*_COLUMNS, *_OTHERS))})=")
_OF_NUMBER = re.compile(r"\(\d+\)$")


def read_job_completion(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the jobs of a log; raise `BadFileError` if none is left."""
    numbers: list[int] = []
    cells: list[list[str]] = []
    faults: list[BadFileError] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        parts = _KEY.split(line)
        given = dict(zip(parts[1::2], parts[2::2], strict=True))
        if "JobId" in given and "SubmitTime" in given:
            given["UserId"] = _OF_NUMBER.sub("", given.get("UserId", "").strip())
            numbers.append(number)
            cells.append([given.get(key, "").strip() for key in _COLUMNS])
        else:
            fault = f"is {shown(line)}, must be JobId=NUMBER ... SubmitTime=DATE ..."
            faults.append(bad_file(path, f"line {number}", fault))
    damage.drop(len(faults), faults, left=len(cells))
    return Rows(path, list(_COLUMNS.values()), numbers, cells, columns).workload(damage)
