"""Accounting files of Grid Engine: Sun's, Univa's and Altair's, Son of Grid Engine, and Open Cluster Scheduler.

Colons separate the fields of a line, in the order of accounting(5): qname, hostname, group, owner, job_name,
job_number, account, priority, submission_time, start_time, end_time, ..., granted_pe, slots, task_number, ...,
category. ``qacct -j`` prints the same records, with one name and value per line, each below a line of equals signs.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, memory_mib, resource_count
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import OF_CORE, Asked
from allocopt.traces.csv_columns import Columns
from allocopt.traces.jobs import JobRecord, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

PARTS = "tasks of a parallel job, counted with it"

_FEWEST = 40  # fields, up to the category
# Numbers of fields, counted from 0.
_QUEUE, _OWNER, _JOB, _SUBMIT, _START, _END = 0, 3, 5, 8, 9, 10
_PROJECT, _PE, _SLOTS, _TASK, _CATEGORY, _PE_TASK = 31, 33, 34, 35, 39, 41
# For each field, its name in ``qacct`` and its default value.
_QACCT = {
    _QUEUE: ("qname", ""),
    _OWNER: ("owner", ""),
    _JOB: ("jobnumber", ""),
    _SUBMIT: ("qsub_time", ""),
    _START: ("start_time", ""),
    _END: ("end_time", ""),
    _PROJECT: ("project", "NONE"),
    _PE: ("granted_pe", "NONE"),
    _SLOTS: ("slots", "1"),
    _TASK: ("taskid", "0"),
    _CATEGORY: ("category", ""),
    _PE_TASK: ("pe_taskid", "NONE"),
}
_RULE = "=" * 20
_REQUESTED = re.compile(r"(-\w+)((?: (?!-)\S+)*)")
_LIMITS = ("h_rt", "s_rt")
_MEMORY = ("mem_free", "virtual_free", "h_vmem", "mem_total")
_GPUS = frozenset(("gpu", "gpus", "ngpus"))
_NO_DEMANDS = frozenset(
    (
        *"h_rt s_rt h_cpu s_cpu h_fsize s_fsize h_data s_data h_stack s_stack h_core s_core h_rss s_rss s_vmem".split(),
        *("q", "qname", "hostname", "h", "exclusive", "excl", "ex", *_MEMORY),
    )
)


def read_grid_engine(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the jobs of a file; sizes are slots, because the file has only the first host of each job.

    The estimate is ``h_rt`` in the category; memory there is per slot. Raises `BadFileError` if no job is left.
    """
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    skipped: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) < 2 or line.startswith("#"):
            continue
        fields = line.split(":")
        try:
            if len(fields) < _FEWEST:
                raise ValueError(f"has {len(fields)} fields, must have at least {_FEWEST}")
            if len(fields) > _PE_TASK and fields[_PE_TASK] not in ("NONE", "0", ""):
                skipped[PARTS] += 1
                continue
            records.append(_record(f"line {number}", len(records) + 1, fields))
        except ValueError as error:
            faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, skipped=skipped, ignored=columns.ignored)


def read_qacct(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the jobs that ``qacct -j`` prints, as `read_grid_engine` does; dates are taken as UTC."""
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    skipped: Counter[str] = Counter()
    given: dict[str, str] = {}
    begin = 0
    for number, line in enumerate((*text.splitlines(), _RULE), 1):
        if not line.startswith(_RULE):
            name, _, value = line.strip().partition(" ")
            given.setdefault(name, value.strip())
            continue
        try:
            if "jobnumber" in given:
                fields = _fields(given)
                skipped[PARTS] += fields[_PE_TASK] != "NONE"
                if fields[_PE_TASK] == "NONE":
                    records.append(_record(f"line {begin}", len(records) + 1, fields))
        except ValueError as error:
            faults.append(bad_file(path, f"line {begin}", str(error)))
        given, begin = {}, number + 1
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, skipped=+skipped, ignored=columns.ignored)


def _fields(given: Mapping[str, str]) -> list[str]:
    # The fields as in a line of an accounting file.
    fields = ["NONE"] * (_PE_TASK + 1)
    for column, (name, otherwise) in _QACCT.items():
        fields[column] = given.get(name, otherwise)
    for column in (_SUBMIT, _START, _END):
        fields[column] = _epoch_ms(fields[column])
    if not fields[_TASK].isdigit():
        fields[_TASK] = "0"
    fields[_SLOTS] = fields[_SLOTS].split()[0]
    return fields


def _epoch_ms(text: str) -> str:
    # ``Mon Mar  4 10:00:00 2024``, or Univa's ``03/04/2024 10:00:00.123``; ``-/-`` means that there is no time.
    if text in ("-/-", ""):
        return "0"
    if american := re.fullmatch(r"(\d\d)/(\d\d)/(\d{4}) (.+)", text, re.ASCII):
        month, day, year, clock = american.groups()
        return f"{1000 * instant_s(f'{year}-{month}-{day} {clock}'):.0f}"
    return f"{1000 * instant_s(re.sub('^[A-Z][a-z][a-z] ', '', text)):.0f}"


def _record(place: str, number: int, fields: list[str]) -> JobRecord:
    submit, start, end = (
        _instant(fields[column], name)
        for column, name in ((_SUBMIT, "submission_time"), (_START, "start_time"), (_END, "end_time"))
    )
    slots, task = resource_count(fields[_SLOTS], "slots"), fields[_TASK]
    asked = _asked(fields[_CATEGORY])
    gpus = next((resource_count(asked[name], "gpu") for name in asked if name in _GPUS), 0.0)
    memory = next((memory_mib(asked[name], 2.0**-20)[0] for name in _MEMORY if name in asked), 0.0)
    names = {f"-l {name}" for name, value in asked.items() if name not in _NO_DEMANDS | _GPUS and value != "0"}
    host = asked.get("hostname", asked.get("h", ""))
    if re.search(r"[*?|!&]", host):
        names.add("-l hostname")
    whole = Asked(
        nodes=1 if fields[_PE] == "NONE" else 0,
        processors=slots,
        is_spread=False,
        gpus=(("", gpus),) if gpus else (),
        memory_mib=memory,
        memory_of=OF_CORE,
        partition=fields[_QUEUE],
        required="" if "-l hostname" in names else host,
        is_exclusive=any(asked.get(name, "").lower() in ("true", "1") for name in ("exclusive", "excl", "ex")),
    )
    return JobRecord(
        place=place,
        number=number,
        job=fields[_JOB] if task in ("0", "") else f"{fields[_JOB]}_{task}",
        submit=submit,
        start=start,
        run=end - start,
        estimate=next((duration_s(asked[name]) for name in _LIMITS if name in asked), math.nan),
        size=slots,
        user=fields[_OWNER],
        account="" if fields[_PROJECT] == "NONE" else fields[_PROJECT],
        request=whole.request(),
        asks_for=tuple(sorted(names)),
    )


def _instant(text: str, name: str) -> float:
    if not re.fullmatch(r"\d{1,16}", text, re.ASCII):
        raise ValueError(f"{name} is {shown(text)}, must be seconds since 1970")
    # Univa's times are in milliseconds.
    return instant_s(text) or math.nan


def _asked(category: str) -> dict[str, str]:
    # Hard requests after ``-l``; soft requests need not be met.
    asked: dict[str, str] = {}
    for option, words in _REQUESTED.findall(category.partition("-soft")[0]):
        if option == "-l":
            for part in words.strip().split(","):
                name, equals, value = part.partition("=")
                asked[name.strip()] = value.strip() if equals else "true"
    return asked
