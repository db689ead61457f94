"""Accounting logs of PBS: Torque, PBS Professional and OpenPBS.

A line is ``date;type;id;key=value ...``. A run that has ended has a record of type ``E``, or ``R`` if the job ran
again. Sources: Torque 4.2 Administrator Guide, "Accounting records"; PBS Professional 2022.1 Reference Guide,
"Accounting Log".
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, memory_mib, resource_count
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import Asked
from allocopt.traces.csv_columns import Columns
from allocopt.traces.dependencies import preceding_job
from allocopt.traces.jobs import NEVER_STARTED, NOT_ENDED, JobRecord, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

SHAPES = "chunks of different shapes"
SHAPES_KEPT = f"{SHAPES}, run on whole nodes only"
ARRAYS = "arrays as a whole, whose tasks have records of their own"

_LINE = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;(\w+);([^;]*);(.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"([\w.]+)=(\"[^\"]*\"|'[^']*'|\S*)")
_SLOTS = re.compile(r"(\d+)(?:-(\d+))?(?:\*(\d+))?", re.ASCII)
_SERVER = re.compile(r"(?<=\d)\.[^:,@\s]*(?:@[^:,\s]*)?", re.ASCII)  # after the number of a job
# Resources that limit or describe a job, or repeat others.
_NO_DEMANDS = frozenset(
    (
        "walltime ncpus nodect nodes neednodes select place mem ngpus cput pcput file nice umask vmem pvmem pmem "
        "mpiprocs ompthreads procct procs min_walltime opsys max_walltime soft_walltime preempt_targets software qos "
        "nodeset size gpus naccesspolicy depend"
    ).split()
)
_CHUNK = frozenset(("ncpus", "ppn", "mpiprocs", "ompthreads", "ngpus", "gpus", "mem", "vmem", "host", "vnode"))
_NOTHING = frozenset(("", "0", "false", "none", "0b", "0kb", "0mb", "0gb"))
_EXCLUSIVE = frozenset(("excl", "exclhost", "singlejob", "singletask"))


def read_pbs(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the runs of a log; the size of each is the number of hosts in ``exec_host``.

    The estimate is ``Resource_List.walltime``. Jobs that have only a record of submission or start have not ended;
    jobs deleted while queued have never started. Jobs with resources that no request can express are left out. Raises
    `BadFileError` if no job is left.
    """
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    skipped: Counter[str] = Counter()
    last: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            faults.append(bad_file(path, f"line {number}", f"is {shown(line)}, must be date;type;id;key=value ..."))
            continue
        kind, job, attributes = found.groups()
        if "[]" in job:
            skipped[ARRAYS] += kind == "E"
            continue
        # A job that is deleted while it runs also has a record of its end.
        if kind in ("Q", "S") or (kind in ("D", "A") and last.get(job, "Q") == "Q"):
            last[job] = kind
        if kind not in ("E", "R"):
            continue
        last[job] = kind
        try:
            given = {key: value.strip("\"'") for key, value in _ATTRIBUTE.findall(attributes)}
            if kind == "E" or {"start", "end"} <= given.keys():
                records.append(_record(f"line {number}", len(records) + 1, job, given))
        except ValueError as error:
            faults.append(bad_file(path, f"line {number}", str(error)))
    skipped[NOT_ENDED] += sum(kind in "QSR" for kind in last.values())
    skipped[NEVER_STARTED] += sum(kind in "DA" for kind in last.values())
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, skipped=+skipped, ignored=columns.ignored)


def _record(place: str, number: int, job: str, given: Mapping[str, str]) -> JobRecord:
    submit, start, end = (_instant(given, *keys) for keys in (("ctime", "qtime", "etime"), ("start",), ("end",)))
    if math.isnan(end):
        raise ValueError("has no end=SECONDS, which records of type E have")
    hosts = _hosts(given.get("exec_host", ""))
    asked = {key.removeprefix("Resource_List."): value for key, value in given.items() if "Resource_List." in key}
    chunks = _chunks(asked.get("select") or asked.get("nodes") or asked.get("neednodes") or "", hosts)
    nodes = len(hosts) or _first(given.get("unique_node_count"), asked.get("nodect")) or chunks.count or 1
    processors = max(
        _first(asked.get("ncpus"), given.get("total_execution_slots"), asked.get("procs")),
        sum(hosts.values()),
        chunks.processors,
    )
    place_words = set(re.split("[:=]", asked.get("place", ""))) | {asked.get("naccesspolicy", "").lower()}
    names = {f"place={word}" for word in place_words if word == "group"} | chunks.others
    names |= {key for key, value in asked.items() if key not in _NO_DEMANDS and value.lower() not in _NOTHING}
    names |= {"a reservation"} if given.get("resvID") or given.get("resvname") else set()
    memory = memory_mib(asked.get("mem", ""), 2.0**-20)[0] or chunks.memory_mib
    gpus = _first(asked.get("ngpus"), asked.get("gpus")) or chunks.gpus
    whole = Asked(
        nodes=nodes,
        processors=max(processors, nodes),
        gpus=(("", gpus),) if gpus else (),
        memory_mib=memory,
        partition=given.get("queue", ""),
        constraint="&".join(chunks.features),
        required=",".join(chunks.hosts),
        is_exclusive=bool(place_words & _EXCLUSIVE),
    )
    after, waits = preceding_job(_SERVER.sub("", given.get("depend", asked.get("depend", ""))))
    return JobRecord(
        place=place,
        number=number,
        job=job.partition(".")[0],
        submit=submit,
        start=start,
        run=end - start,
        estimate=duration_s(asked.get("walltime", "")),
        size=nodes,
        user=given.get("user", ""),
        account=given.get("account", ""),
        node_list=",".join(hosts),
        request=replace(whole.request(), unmodelled=(SHAPES,)) if chunks.is_mixed else whole.request(),
        after=after,
        asks_for=tuple(sorted({*names, *whole.not_modelled()})),
        remarks=tuple(filter(None, (SHAPES_KEPT if chunks.is_mixed else "", waits))),
    )


def _instant(given: Mapping[str, str], *keys: str) -> float:
    for key in keys:
        try:
            if instant := instant_s(given.get(key, "")):
                return instant
        except ValueError as error:
            raise ValueError(f"{key} {error}") from None
    return math.nan


def _first(*texts: str | None) -> int:
    return next((count for text in texts if text and (count := int(resource_count(text, "")))), 0)


def _hosts(text: str) -> dict[str, int]:
    # Slots by host of ``n1/0-3+n2/0*8``; Torque lists every slot, ``n1/0+n1/1``.
    hosts: dict[str, int] = {}
    for part in filter(None, text.split("+")):
        host, _, slots = part.partition("/")
        count = 0
        for first, last, times in _SLOTS.findall(slots):
            count += int(times) if times else int(last or first) - int(first) + 1
        hosts[host] = hosts.get(host, 0) + max(count, 1)
    return hosts


@dataclass
class _Chunks:
    # The sum of the chunks of ``select`` or ``nodes``.
    count: int = 0
    processors: int = 0
    gpus: int = 0
    memory_mib: float = 0.0
    features: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    is_mixed: bool = False


def _chunks(text: str, hosts: Iterable[str]) -> _Chunks:
    made, shapes = _Chunks(), set()
    for part in filter(None, text.split("#")[0].split("+")):
        first, *rest = part.split(":")
        is_count = first.isascii() and first.isdigit()
        count = int(resource_count(first, "")) if is_count else 1
        rest = rest if is_count else [first, *rest]
        amounts = {key: value for key, equals, value in (word.partition("=") for word in rest) if equals}
        made.count += count
        made.processors += count * (_first(amounts.get("ncpus"), amounts.get("ppn")) or 1)
        made.gpus += count * _first(amounts.get("ngpus"), amounts.get("gpus"))
        made.memory_mib += count * memory_mib(amounts.get("mem", ""), 2.0**-20)[0]
        words = [word for word in rest if "=" not in word and word not in ("shared", "exclusive_process", "default")]
        made.hosts += [word for word in words if word in hosts]
        made.hosts += [amounts[key].partition("[")[0] for key in ("host", "vnode") if key in amounts]
        named = [word for word in words if word not in hosts]
        named += [key for key, value in amounts.items() if key not in _CHUNK and value.lower() == "true"]
        made.features += [word for word in named if word not in made.features]
        odd = {key for key, value in amounts.items() if key not in _CHUNK and value.lower() not in {*_NOTHING, "true"}}
        made.others |= odd
        shapes.add(tuple(sorted((*amounts.items(), *((word, "") for word in named)))))
    made.is_mixed = len(shapes) > 1
    return made
