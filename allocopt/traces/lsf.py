"""Accounting records of LSF: ``JOB_FINISH`` in ``lsb.acct``, and the output of ``bjobs -o ... -json``.

The fields of a record are those of lsb.acct(5), IBM Spectrum LSF 10.1; records of older versions end earlier.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import lines_of
from allocopt.traces.asked import OF_NODE, Asked
from allocopt.traces.csv_columns import Columns
from allocopt.traces.dependencies import preceding_job
from allocopt.traces.jobs import JobRecord, workload_of
from allocopt.traces.json_rows import rows_of_objects
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_EXCLUSIVE = 0x40  # SUB_EXCLUSIVE of lsbatch.h
_USAGE = 19  # numbers of getrusage
_TO_DESCRIPTION = 23  # fields from maxRMem to jobDescription
_FIRST_FLAG = 2**22  # lowest flag of options3
# Records that are not jobs, and empty lines.
_OTHERS = frozenset(("", "EVENT_ADRSV_FINISH", "JOB_RESIZE", "JOB_RUN_RUSAGE"))
_HOST = re.compile(r"(?:(\d+)\*)?(.+)", re.DOTALL)
_SECTION = re.compile(r"(\w+)\[([^\]]*)\]")
_AMOUNT = re.compile(r"(\w+)\s*=\s*([\d.]+)")
# Names in ``rusage`` that are not demands for node resources, or are already part of the request.
_LOADS = frozenset(
    (
        "mem swp tmp duration decay r15s r1m r15m ut pg io ls it ngpus_physical ngpus_excl_p ngpus_shared ngpus "
        "ngpus_excl_t"
    ).split()
)
_ANY_HOST = re.compile(r"[\s()&]*(?:type\s*==\s*(?:any|local)[\s()&]*)*")


def read_lsb_acct(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the jobs of an ``lsb.acct``, each on as many nodes as its execution hosts.

    The estimate is the run limit. Records of other types, such as reservations, are counted. Raises `BadFileError` if
    no job is left.
    """
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    skipped: Counter[str] = Counter()
    for number, line in enumerate(lines_of(text), 1):
        try:
            # Lines are parsed one by one, so that an open quote does not spoil other records.
            cells = next(csv.reader([line.strip("\r\n ")], delimiter=" ", skipinitialspace=True), [])
            kind = cells[0] if cells else ""
            if kind in _OTHERS:
                skipped[f"records {kind} are not jobs"] += bool(kind)
                continue
            records.append(_record(f"line {number}", len(records) + len(faults) + 1, _Fields(cells)))
        except (ValueError, csv.Error) as error:
            faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, skipped=+skipped, ignored=columns.ignored)


def read_bjobs(path: Path, parsed: dict[str, Any], damage: Damage, columns: Columns) -> Workload:
    """Read the records of ``bjobs -json`` as rows of a table whose columns have the names of the fields."""
    return rows_of_objects(path, parsed["RECORDS"], columns).workload(damage)


class _Fields:
    """Takes the fields of a record one after the other."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells
        self._place = 0

    def take(self, count: int = 1) -> Sequence[str]:
        """Return the next fields; raise `ValueError` if the record ends early."""
        taken = self._cells[self._place : self._place + count]
        self._place += count
        if len(taken) < count:
            raise ValueError(f"ends after {len(self._cells)} fields")
        return taken

    def count(self, name: str) -> int:
        """Return the value of the next field, which is a number of fields or groups of fields that follow."""
        return int(max(_number(name, self.take()[0]), 0))


def _record(place: str, number: int, fields: _Fields) -> JobRecord:
    kind, _, ended, job, _, options, slots, submitted, _, _, started = fields.take(11)
    if kind != "JOB_FINISH":
        raise ValueError(f"begins with {shown(kind)}, must be JOB_FINISH")
    user, queue, needs, waits_for, *_ = fields.take(4 + 7)
    wanted = fields.take(fields.count("numAskedHosts"))
    hosts = _hosts(fields.take(fields.count("numExHosts")))
    index, limit_s, effective = _rest(fields)
    submit, start, end = (_number(name, text) for name, text in (
        ("submitTime", submitted), ("startTime", started), ("event time", ended)
    ))  # fmt: skip
    asked, names = _asked(_number("numProcessors", slots), hosts, needs, effective)
    if wanted and not {_short(host) for host in hosts} <= {_short(host) for host in wanted}:
        names.append("a host group")
    after, remark = preceding_job(waits_for)
    whole = Asked(
        **asked,
        partition=queue,
        required=",".join(hosts if len(wanted) == len(hosts) else wanted) if "a host group" not in names else "",
        is_exclusive=bool(int(_number("options", options)) & _EXCLUSIVE),
    )
    return JobRecord(
        place=place,
        number=number,
        job=f"{job}[{index}]" if index not in ("0", "") else job,
        submit=submit,
        start=start or math.nan,
        run=end - start if start else math.nan,
        estimate=limit_s,
        size=max(len(hosts), 1),
        user=user,
        node_list=",".join(hosts),
        request=whole.request(),
        after=after,
        asks_for=tuple(sorted({*names, *whole.not_modelled()})),
        remarks=(remark,) if remark else (),
    )


def _short(host: str) -> str:
    # ``bsub -m`` accepts ``host`` and ``host+2`` for ``host.domain``.
    return host.partition(".")[0].partition("+")[0].rstrip("!")


def _number(name: str, text: str) -> float:
    if not re.fullmatch(r"-?\d{1,16}", text, re.ASCII):
        raise ValueError(f"{name} is {shown(text)}, must be an integer")
    return float(text)


def _hosts(listed: Sequence[str]) -> dict[str, int]:
    # Slots by host: a host is listed once per slot, or as ``16*host``.
    hosts: dict[str, int] = {}
    for text in listed:
        if found := _HOST.fullmatch(text):
            hosts[found[2]] = hosts.get(found[2], 0) + int(found[1] or 1)
    return hosts


def _rest(fields: _Fields) -> tuple[str, float, str]:
    """Return the array index, the run limit in seconds (NaN for none), and the effective resources.

    Records of older versions end earlier.
    """
    index = "0"
    try:
        # From jStatus to timeEvent, and from maxRMem to jobDescription.
        fields.take(4 + _USAGE + 6)
        (index,) = fields.take()
        fields.take(_TO_DESCRIPTION)
        fields.take(2 * fields.count("submitEXT"))
        for _ in range(fields.count("numHostRusage")):
            fields.take(5)
            fields.take(2 * fields.count("keys of hostRusage"))
        first, second, _, effective = fields.take(4)
        limit, flags = _number("runLimit", first), _number("options3", second)
    except ValueError:
        return index, math.nan, ""
    # Versions 9 and 10 write these two fields in the reverse of the documented order. Flags have only high bits, so a
    # smaller number is the limit.
    if limit == 0 and 0 < flags < _FIRST_FLAG:
        limit = flags
    return index, limit if limit > 0 else math.nan, effective


def _asked(slots: float, hosts: dict[str, int], needs: str, effective: str) -> tuple[dict[str, Any], list[str]]:
    # Fields of the request, and the names of demands that a request cannot express.
    names: list[str] = []
    gpus = memory = 0.0
    for section, inside in _SECTION.findall(needs):
        if section == "select" and not _ANY_HOST.fullmatch(inside):
            names.append("select[]")
        if section in ("cu", "affinity", "same"):
            names.append(f"{section}[]")
        if section == "rusage":
            amounts = dict(_AMOUNT.findall(inside))
            names += [f"rusage[{name}]" for name, amount in amounts.items() if name not in _LOADS and float(amount)]
            memory = float(amounts.get("mem", 0.0))
    for section, inside in _SECTION.findall(f"{needs} {effective}"):
        if section == "rusage":
            gpus = max([gpus, *(float(n) for name, n in _AMOUNT.findall(inside) if name.startswith("ngpus"))])
    given = {
        "nodes": len(hosts),
        "processors": sum(hosts.values()) or slots,
        "gpus": (("", gpus),) if gpus else (),
        "gpus_of": OF_NODE,
        "memory_mib": memory,
        "memory_of": OF_NODE,
    }
    return given, names
