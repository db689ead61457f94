"""Job histories of HTCondor: ClassAds as printed by ``condor_history`` with ``-long``, ``-json`` or ``-jsonl``.

Attributes are those of the HTCondor manual, "Job ClassAd Attributes"; their names are case-insensitive.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.cluster.tres import licenses_of
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import OF_NODE, Asked
from allocopt.traces.csv_columns import Columns
from allocopt.traces.jobs import JobRecord, has_ended, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

NO_NUMBER = "cores or memory asked for by an expression, provisioned amounts used"

ON_ACCESS_POINT = "run on the access point (scheduler or local universe)"

_ON_ACCESS_POINT = (7, 12)
_STATES = {1: "IDLE", 2: "RUNNING", 3: "CANCELLED", 4: "COMPLETED", 5: "HELD", 6: "RUNNING", 7: "SUSPENDED"}
_REMOVED = 3
_LIMITS = ("allowedjobduration", "allowedexecuteduration", "maxruntime", "maxwalltime")
_NO_DEMANDS = frozenset(("requestcpus", "requestmemory", "requestdisk", "requestgpus", "requestvirtualmemory"))
_ASSIGNED = re.compile(r"\s*(\w+)\s*=\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,16}(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)


def read_classads(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read ClassAds in text: one attribute per line, and an empty line or a line of ``***`` after each ad."""
    return _workload_of(path, list(_ads(path, text, damage)), damage, columns)


def read_condor_json(path: Path, parsed: Sequence[Any], damage: Damage, columns: Columns) -> Workload:
    """Read ClassAds from a parsed list of objects."""
    ads, faults = [], []
    for number, ad in enumerate(parsed):
        if isinstance(ad, dict):
            ads.append((f"job {number}", {str(key).lower(): value for key, value in ad.items()}))
        else:
            faults.append(bad_file(path, f"job {number}", "must be an object"))
    damage.drop(len(faults), faults, left=len(ads))
    return _workload_of(path, ads, damage, columns)


def _ads(path: Path, text: str, damage: Damage) -> Iterator[tuple[str, dict[str, Any]]]:
    ad: dict[str, Any] = {}
    place = ""
    faults: list[BadFileError] = []
    for number, line in enumerate((*text.splitlines(), ""), 1):
        if not line.strip() or line.startswith("***"):
            if ad:
                yield place, ad
            ad = {}
            continue
        place = place if ad else f"line {number}"
        if found := _ASSIGNED.fullmatch(line):
            ad[found[1].lower()] = _value(found[2].strip())
        else:
            faults.append(bad_file(path, f"line {number}", f"is {shown(line)}, must be ATTRIBUTE = VALUE"))
    damage.drop(len(faults), faults, left=1)


def _value(text: str) -> Any:
    # A number or a text; expressions remain texts.
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return text[1:-1]
    return float(text) if _NUMBER.fullmatch(text) else text


def _workload_of(path: Path, ads: Sequence[tuple[str, dict[str, Any]]], damage: Damage, columns: Columns) -> Workload:
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    for number, (place, ad) in enumerate(ads, 1):
        try:
            records.append(_record(place, number, ad))
        except ValueError as error:
            faults.append(bad_file(path, place, str(error)))
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, ignored=columns.ignored)


def _record(place: str, number: int, ad: Mapping[str, Any]) -> JobRecord:
    cluster, process = _number(ad, "clusterid"), _number(ad, "procid")
    status = int(_number(ad, "jobstatus", 4.0))
    start = _number(ad, "jobcurrentstartdate") or _number(ad, "jobstartdate")
    end = _number(ad, "completiondate")
    if status == _REMOVED and not end:
        end = _number(ad, "enteredcurrentstatus")
    hosts = max(int(_number(ad, "currenthosts")), int(_number(ad, "minhosts")), 1) if _is_parallel(ad) else 1
    (cpus, is_cpus), (memory, is_memory) = (_asked(ad, "cpus"), _asked(ad, "memory"))
    cpus, gpus = cpus or 1.0, _number(ad, "requestgpus")
    names = licenses_of(str(ad.get("concurrencylimits", "")))
    names += [key for key, value in ad.items() if key.startswith("request") and key not in _NO_DEMANDS and _asks(value)]
    names += ["requiregpus"] if ad.get("requiregpus") else []
    whole = Asked(
        nodes=hosts,
        processors=hosts * cpus,
        cores_per_task=cpus,
        gpus=(("", gpus),) if gpus else (),
        gpus_of=OF_NODE,
        memory_mib=memory,
        memory_of=OF_NODE,
    )
    return JobRecord(
        place=place,
        number=number,
        job=f"{cluster:.0f}.{process:.0f}" if process else f"{cluster:.0f}",
        submit=_number(ad, "qdate") or math.nan,
        start=start or math.nan,
        run=end - start if start and end else math.nan,
        estimate=next((limit for key in _LIMITS if (limit := _number(ad, key)) > 0), math.nan),
        size=hosts * cpus,
        is_over=has_ended(_STATES.get(status, ""), end or math.nan, math.nan),
        user=str(ad.get("owner", ad.get("user", ""))),
        account=str(ad.get("acctgroup", "")),
        request=whole.request(),
        asks_for=tuple(sorted(set(names))),
        left_out=ON_ACCESS_POINT if _number(ad, "jobuniverse") in _ON_ACCESS_POINT else "",
        remarks=() if is_cpus and is_memory else (NO_NUMBER,),
    )


def _asked(ad: Mapping[str, Any], what: str) -> tuple[float, bool]:
    # The amount, and whether the request is a number.
    if isinstance(ad.get(f"request{what}"), str):
        return _number(ad, f"{what}provisioned"), False
    return _number(ad, f"request{what}"), True


def _is_parallel(ad: Mapping[str, Any]) -> bool:
    # Only jobs of the parallel universe have several machines.
    return _number(ad, "jobuniverse") == 11


def _asks(value: Any) -> bool:
    return value not in (0, 0.0, False, None, "", "undefined", "false")


def _number(ad: Mapping[str, Any], key: str, otherwise: float = 0.0) -> float:
    value = ad.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float):
        if value in (None, "undefined"):
            return otherwise
        raise ValueError(f"{key} is {shown(value)}, must be a number")
    if not abs(value) <= LARGEST:
        raise ValueError(f"{key} is {shown(value)}, must be within 2^53 of 0")
    return float(value)
