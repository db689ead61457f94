"""Jobs in Slurm's JSON: ``sacct --json`` and ``squeue --json``, from Slurm 22.05 on.

A number is plain, or ``{"set": true, "infinite": false, "number": 120}``; a state is one word or a list of words.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.cluster.slurm_records import unwrapped
from allocopt.cluster.tres import demands_of, licenses_of, reservation_of
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST, memory_mib
from allocopt.files.faults import bad_file, shown
from allocopt.traces.asked import OF_CORE, OF_JOB, OF_NODE, OF_TASK, Asked
from allocopt.traces.components import component_id
from allocopt.traces.csv_columns import Columns
from allocopt.traces.dependencies import preceding_job
from allocopt.traces.jobs import JobRecord, has_ended, tasks_listed, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.rows import SUSPENDED, node_list_of
from allocopt.traces.workload import Workload

_NOT_HISTORY = (
    "holds {} jobs of squeue --json or scontrol show job --json, none of which has ended; "
    "give what sacct --json or sacct -P prints about jobs that have run"
)


def read_sacct_json(path: Path, parsed: Mapping[str, Any], damage: Damage, columns: Columns) -> Workload:
    """Read the jobs of ``sacct --json``; raise `BadFileError` if none is left."""
    return _read(path, parsed["jobs"], _of_accounting, damage, columns)


def read_squeue_json(path: Path, parsed: Mapping[str, Any], damage: Damage, columns: Columns) -> Workload:
    """Read the ended jobs that the controller still lists; raise `BadFileError` if there is none."""
    return _read(path, parsed["jobs"], _of_controller, damage, columns)


def _read(path: Path, jobs: Sequence[Any], read_job: Any, damage: Damage, columns: Columns) -> Workload:
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    for number, job in enumerate(jobs, 1):
        try:
            records.append(read_job(f"jobs[{number - 1}]", number, _Job(job)))
        except ValueError as error:
            faults.append(bad_file(path, f"jobs[{number - 1}]", str(error)))
    damage.drop(len(faults), faults, left=len(records))
    if read_job is _of_controller and not any(record.is_over for record in records):
        raise bad_file(path, _NOT_HISTORY.format(len(records)))
    return workload_of(path, records, damage, ignored=columns.ignored)


class _Job:
    """A JSON object whose values are read by paths such as ``time.limit``."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, dict):
            raise ValueError(f"is {shown(given)}, must be an object")
        self._given = given

    def get(self, path: str) -> Any:
        """Return the value at a path, None if it is missing."""
        value: Any = self._given
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *paths: str) -> float:
        """Return the first number that is set at one of the paths, NaN if none is."""
        for path in paths:
            value = unwrapped(self.get(path))
            if value is None or value == "":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{path} is {shown(value)}, must be a number")
            if abs(value) > LARGEST and not path.endswith("memory"):
                raise ValueError(f"{path} is {shown(value)}, must be within 2^53 of 0")
            return float(value)
        return math.nan

    def count(self, *paths: str) -> float:
        """Return the first positive number at one of the paths, 0 if there is none."""
        return next((value for path in paths if (value := self.number(path)) > 0), 0.0)

    def instant(self, path: str) -> float:
        """Return seconds since 1970, NaN for 0, which means a time in the future."""
        return self.number(path) or math.nan

    def text(self, *paths: str) -> str:
        """Return the first text at one of the paths, lists joined by commas; empty if there is none."""
        for path in paths:
            value = self.get(path)
            value = ",".join(map(str, value)) if isinstance(value, list) else value
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{path} is {shown(value)}, must be a text")
            if value and value.lower() not in ("(null)", "none", "n/a"):
                return value
        return ""

    def states(self, path: str) -> list[str]:
        """Return a state and its flags."""
        return re.split("[,+ ]", self.text(path).upper())


def _limit_s(job: _Job, path: str) -> float:
    # INFINITE and NO_VAL of slurm.h mean no limit.
    minutes = job.number(path)
    return math.nan if minutes >= 2**32 - 2 else 60.0 * minutes


def _of_accounting(place: str, number: int, job: _Job) -> JobRecord:
    lists = {name: _tres_text(job.get(f"tres.{name}")) for name in ("allocated", "requested")}
    start, end, run = job.instant("time.start"), job.instant("time.end"), job.number("time.elapsed")
    nodes = job.count("allocation_nodes") or _amount(lists["allocated"] or lists["requested"], "node")
    processors = _amount(lists["allocated"], "cpu") or job.count("required.CPUs") or _amount(lists["requested"], "cpu")
    memory, memory_of = _memory(job, "required.memory_per_cpu", "required.memory_per_node", "required.memory")
    return _record(
        place, number, job, lists=lists, nodes=nodes, processors=processors, memory=memory, memory_of=memory_of,
        submit=job.instant("time.submission"), start=start, end=end, run=run, limit=_limit_s(job, "time.limit"),
        state=job.states("state.current") if isinstance(job.get("state"), dict) else job.states("state"),
        user=job.text("user", "association.user"),
    )  # fmt: skip


def _of_controller(place: str, number: int, job: _Job) -> JobRecord:
    lists = {name: job.text(f"tres_{name}_str") for name in ("alloc", "req")}
    start, end = job.instant("start_time"), job.instant("end_time")
    nodes = job.count("node_count") or _amount(lists["alloc"] or lists["req"], "node")
    processors = job.count("cpus") or _amount(lists["alloc"] or lists["req"], "cpu")
    memory, memory_of = _memory(job, "memory_per_cpu", "memory_per_node", "memory")
    return _record(
        place, number, job, lists=lists, nodes=nodes, processors=processors, memory=memory, memory_of=memory_of,
        submit=job.instant("submit_time"), start=start, end=end, run=end - start, limit=_limit_s(job, "time_limit"),
        state=job.states("job_state"), user=job.text("user_name"),
    )  # fmt: skip


def _record(
    place: str,
    number: int,
    job: _Job,
    *,
    lists: Mapping[str, str],
    nodes: float,
    processors: float,
    memory: float,
    memory_of: str,
    submit: float,
    start: float,
    end: float,
    run: float,
    limit: float,
    state: Sequence[str],
    user: str,
) -> JobRecord:
    words = {has_ended(word, end, run) for word in state} or {has_ended("", end, run)}
    per = {"tres_per_task": OF_TASK, "tres_per_node": OF_NODE, "tres_per_job": OF_JOB}
    held = [(demands_of(job.text(path)), of) for path, of in per.items()]
    held += [(demands_of(text), OF_JOB) for text in lists.values()]
    gpus, gpus_of = next(((one.gpus, of) for one, of in held if one.gpus), ((), OF_JOB))
    names = {name for one, _ in held for name in one.others}
    names |= {f"{name} per socket" for name in ("GPUs",) if demands_of(job.text("tres_per_socket")).gpus}
    names.update(licenses_of(job.text("licenses")))
    names.update(reservation_of(job.text("reservation.name", "resv_name")))
    names |= {"a burst buffer"} if job.text("burst_buffer") else set()
    whole = Asked(
        nodes=nodes,
        processors=processors,
        gpus=gpus,
        gpus_of=gpus_of,
        memory_mib=0.0 if math.isnan(memory) else memory,
        memory_of=memory_of,
        is_all_memory=memory == 0,
        partition=job.text("partition"),
        constraint=job.text("constraints", "features"),
        excluded=job.text("excluded_nodes"),
        required=job.text("required_nodes"),
        is_exclusive=job.text("exclusive").lower() in ("true", "user", "mcs"),
    )
    after, remark = preceding_job(job.text("dependency"))
    return JobRecord(
        place=place,
        number=number,
        job=f"{job.number('job_id'):.0f}",
        component=component_id(
            f"{job.number('het.job_id', 'het_job_id'):.0f}", f"{job.number('het.job_offset', 'het_job_offset'):.0f}"
        ),
        submit=submit,
        start=start,
        run=math.nan if math.isnan(start) else run if run > 0 else end - start,
        estimate=limit,
        size=nodes or processors,
        is_over=words == {True},
        user=user,
        account=job.text("account", "association.account"),
        node_list=node_list_of(job.text("nodes")),
        request=whole.request(),
        after=after,
        asks_for=tuple(sorted({*names, *whole.not_modelled()})),
        jobs=tasks_listed(str(job.get("array.task") or job.get("array_task_string") or "")),
        remarks=tuple(filter(None, (remark, SUSPENDED if job.count("time.suspended") else ""))),
    )


def _memory(job: _Job, of_core: str, of_node: str, both: str) -> tuple[float, str]:
    # MiB, NaN if unknown, 0 for all memory of a node (``--mem=0``); and whether it is per core or node.
    if amount := job.count(of_core):
        return amount, OF_CORE
    if amount := job.count(of_node):
        return amount, OF_NODE
    if 0.0 in (job.number(of_node), job.number(both)):
        return 0.0, OF_NODE
    # Before Slurm 23.02 one number holds memory per node or per core; a bit marks memory per core.
    given = job.get(both)
    amount, kind = memory_mib(str(given) if isinstance(given, int) else f"{job.count(both):.0f}")
    return amount or math.nan, OF_CORE if kind == "c" else OF_NODE


def _tres_text(listed: Any) -> str:
    # Make a text such as ``gres/gpu:a100=4,cpu=8`` of a list of objects.
    if not isinstance(listed, list):
        return ""
    texts = []
    for one in listed:
        tres = _Job(one)
        name = "/".join(filter(None, (tres.text("type"), tres.text("name"))))
        texts.append(f"{name}={max(tres.count('count'), 0.0):.0f}")
    return ",".join(texts)


def _amount(text: str, name: str) -> float:
    return next((float(part.partition("=")[2]) for part in text.split(",") if part.startswith(f"{name}=")), 0.0)
