"""Reads output of a running Slurm about nodes, partitions, reservations and jobs, as lines of ``Key=value`` pairs.

This module reads the text of ``scontrol show``, with and without ``--oneliner``, and the JSON and YAML of ``scontrol``,
``sinfo`` and ``squeue``; `allocopt.cluster.slurm_tables` reads tables. All forms become lines with the keys that
``scontrol`` prints, in lower case, so that one reader of nodes and one of jobs are enough.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from allocopt.cluster.conf_lines import ConfLine
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.slurm_keys import JOB_KEYS
from allocopt.files.faults import bad_file, shown

NODE, PARTITION, RESERVATION, JOB = "nodename", "partitionname", "reservationname", "jobid"

ALIASES = {
    "cputot": "cpus",
    "procs": "cpus",
    "activefeatures": "features",
    "feature": "features",
    "priority": "prioritytier",
    "shared": "oversubscribe",
}
"""Keys of nodes and partitions that ``scontrol`` or older versions name differently."""

_RECORD = re.compile(r"^(NodeName|PartitionName|ReservationName)=", re.MULTILINE)
# Keys that scontrol prints and slurm.conf(5) does not have.
_PRINTED = re.compile(r"\b(CPUAlloc|CPUTot|TotalNodes|NodeCnt|CfgTRES|AvailableFeatures)=")
_PRINTED_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z/:_]*)=")
# Users and administrators may write anything into these keys; each has a line of its own.
_FREE_TEXT = re.compile(
    r"\s+(?:\w*Comment|Command|WorkDir|Std(?:Err|In|Out)|Extra|SubmitLine|Container\w*|MailUser|Reason)="
)


def is_printed(text: str) -> bool:
    """Return whether a text is output of ``scontrol show node``, ``partition`` or ``reservation``."""
    return bool(_RECORD.search(text) and _PRINTED.search(text))


def printed_records(path: Path, text: str, expander: HostlistExpander) -> Iterator[ConfLine]:
    """Yield the nodes, partitions and reservations in output of ``scontrol show``."""
    # A record extends to the next one: over several lines or, with --oneliner, over one line.
    starts = [found.start() for found in _RECORD.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        lines = text[start:end].splitlines()
        kept = "\n".join([lines[0], *(line for line in lines[1:] if not _FREE_TEXT.match(line))])
        values: dict[str, str] = {}
        for key, value in _printed_pairs(kept):
            values.setdefault(ALIASES.get(key, key), value)
        if RESERVATION in values:
            # A reservation names a partition, and nodes if it has single cores, but does not describe them.
            values = {key: value for key, value in values.items() if key not in (NODE, PARTITION, "coreids")}
        number = text.count("\n", 0, start) + 1
        yield ConfLine(path, f"line {number}", values, expander, is_printed=True)


def _printed_pairs(record: str) -> Iterator[tuple[str, str]]:
    keys = list(_PRINTED_KEY.finditer(record))
    for found, end in zip(keys, [*(key.start() for key in keys[1:]), len(record)], strict=True):
        yield found[1].lower(), record[found.end() : end].strip()


def printed_jobs(path: Path, text: str) -> Iterator[tuple[ConfLine, str]]:
    """Yield each record of ``scontrol show job``, and a key that occurs twice in it; the key is empty if none does.

    Users may write anything into names and comments, even line breaks and ``NumNodes=3``. Therefore a record begins
    only after an empty line, and lines of free text are skipped. A key that still occurs twice comes from such text.
    """
    lines = text.splitlines()
    is_first = [
        line.startswith("JobId=")
        and (number == 0 or not lines[number - 1].strip() or lines[number - 1][:6] == "JobId=")
        for number, line in enumerate(lines)
    ]
    starts = [number for number, first in enumerate(is_first) if first]
    for start, end in pairwise([*starts, len(lines)]):
        head, *tail = lines[start:end]
        if any(line.strip() for line in tail):
            # The name is the last value of its line, unless --oneliner puts the record on one line.
            head = head.partition(" JobName=")[0]
        values: dict[str, str] = {}
        twice = ""
        for key, value in _printed_pairs("\n".join((head, *(line for line in tail if not _is_free(line))))):
            if values.setdefault(key, value) != value and (key in JOB_KEYS.applied or key in JOB_KEYS.reported):
                twice = key
        yield ConfLine(path, f"line {start + 1}", values, HostlistExpander(), is_printed=True), twice


def _is_free(line: str) -> bool:
    # The reason of a node is free text, but the reason of a job is one of Slurm's words.
    return bool(_FREE_TEXT.match(line)) and not line.lstrip().startswith("Reason=")


_NODE_JSON = {
    "name": NODE,
    "cpus": "cpus",
    "alloc_cpus": "cpualloc",
    "alloc_memory": "allocmem",
    "real_memory": "realmemory",
    "sockets": "sockets",
    "cores": "corespersocket",
    "threads": "threadspercore",
    "boards": "boards",
    "specialized_cores": "corespeccount",
    "specialized_memory": "memspeclimit",
    "specialized_cpus": "cpuspeclist",
    "active_features": "features",
    "gres": "gres",
    "gres_used": "gresused",
    "gres_drained": "gresdrain",
    "tres_used": "alloctres",
    "weight": "weight",
    "state": "state",
    "topology": "topology",
    "owner": "owner",
    "mcs_label": "mcs_label",
    "res_cores_per_gpu": "restrictedcorespergpu",
    "address architecture boot_time burstbuffer_network_address cluster_name comment cpu_binding cpu_load energy/*"
    " alloc_idle_cpus effective_cpus cpus_efctv external_sensors/* extra features free_mem hostname instance_id"
    " gpu_spec"
    " instance_type last_busy next_state_after_reboot next_state_after_reboot_flags operating_system partitions port"
    " parameters power/* reason reason_changed_at reason_set_by_user reservation resume_after slurmd_start_time"
    " version"
    " slurmd_version suspend_time temporary_disk tres tres_weighted tls_cert_last_renewal cert_flags state_flags"
    " idle_cpus": "",
}
_PARTITION_JSON = {
    "name": PARTITION,
    "nodes/configured": "nodes",
    "partition/state": "state",
    "partition/exclusive": "exclusive",
    "partition/oversubscribe": "oversubscribe",
    "maximums/oversubscribe/jobs": "oversubscribe",
    "maximums/time": "maxtime",
    "maximums/nodes": "maxnodes",
    "minimums/nodes": "minnodes",
    "maximums/cpus_per_node": "maxcpuspernode",
    "maximums/cpus_per_socket": "maxcpuspersocket",
    "maximums/partition_memory_per_cpu": "maxmempercpu",
    "maximums/partition_memory_per_node": "maxmempernode",
    "defaults/partition_memory_per_cpu": "defmempercpu",
    "defaults/partition_memory_per_node": "defmempernode",
    "defaults/job": "jobdefaults",
    "priority/tier": "prioritytier",
    "preempt_mode": "preemptmode",
    "tres/billing_weights": "tresbillingweights",
    "topology": "topology",
    "nodes/allowed_allocation accounts/* groups/* qos/* alternate cluster select_type cpus/* grace_time"
    " maximums/shares defaults/memory_per_cpu defaults/memory_per_node defaults/time maximums/memory_per_cpu"
    " maximums/memory_per_node"
    " maximums/oversubscribe/flags maximums/over_time_limit node_sets priority/job_factor timeouts/* suspend_time"
    " flags nodes/total tres/configured": "",
}
_RESERVATION_JSON = {
    "name": RESERVATION,
    "node_list": "nodes",
    "start_time": "starttime",
    "end_time": "endtime",
    "flags": "flags",
    "accounts burst_buffer core_count core_specializations features groups licenses max_start_delay node_count"
    " partition purge_completed/* tres users watts comment qos allowed_partitions": "",
}
_SINFO_JSON = {
    "nodes/nodes": NODE,
    "node/state": "state",
    "cpus/minimum": "cpus",
    "sockets/minimum": "sockets",
    "cores/minimum": "corespersocket",
    "threads/minimum": "threadspercore",
    "memory/minimum": "realmemory",
    "weight/minimum": "weight",
    "features/active": "features",
    "gres/total": "gres",
    "gres/used": "gresused",
    "resource_spec/memory": "memspeclimit",
    "resource_spec/cpus": "cpuspeclist",
    "port nodes/* cpus/* sockets/* cores/* threads/* disk/* memory/* weight/* features/* cluster comment extra"
    " reason/* reservation reason_set_by_user partition/*": "",
}
_JOB_JSON = {
    "job_id": JOB,
    "array_job_id": "arrayjobid",
    "array_task_id": "arraytaskid",
    "array_task_string": "arraytaskstring",
    "array_max_tasks": "arraytaskthrottle",
    "het_job_id": "hetjobid",
    "het_job_offset": "hetjoboffset",
    "job_state": "jobstate",
    "state_reason": "reason",
    "dependency": "dependency",
    "partition": "partition",
    "required_nodes": "reqnodelist",
    "excluded_nodes": "excnodelist",
    "node_count": "numnodes",
    "max_nodes": "mostnodes",
    "tasks": "numtasks",
    "cpus_per_task": "cpus/task",
    "tasks_per_node": "ntaskspern:b:s:c",
    "sockets_per_node": "socks/node",
    "minimum_cpus_per_node": "mincpusnode",
    "memory_per_cpu": "minmemorycpu",
    "memory_per_node": "minmemorynode",
    "features": "features",
    "resv_name": "reservation",
    "shared": "oversubscribe",
    "oversubscribe": "oversubscribe",
    "exclusive": "exclusive",
    "tres_per_job": "tresperjob",
    "tres_per_node": "trespernode",
    "tres_per_socket": "trespersocket",
    "tres_per_task": "trespertask",
    "cpus_per_tres": "cpuspertres",
    "memory_per_tres": "mempertres",
    "contiguous": "contiguous",
    "licenses": "licenses",
    "network": "network",
    "burst_buffer": "burstbuffer",
    "minimum_tmp_disk_per_node": "mintmpdisknode",
    "core_spec": "corespec",
    "thread_spec": "threadspec",
    "required_switches": "switches",
    "segment_size": "segmentsize",
    "tasks_per_tres": "ntaskspertres",
    "tasks_per_socket": "ntaskspersocket",
    "prefer": "prefer",
    "tres_req_str": "reqtres",
    "tres_alloc_str": "alloctres",
    "nodes": "nodelist",
    "time_limit": "timelimit",
    "priority": "priority",
    "hold": "hold",
    "requeue": "requeue",
    "batch_flag": "batchflag",
    "account accrue_time admin_comment allocating_node association_id batch_features batch_host flags"
    " burst_buffer_state cluster cluster_features command comment container container_id container_type"
    " cores_per_socket billable_tres billable_tres/* cpu_frequency_minimum cpu_frequency_maximum"
    " cpu_frequency_governor cron deadline delay_boot derived_exit_code derived_exit_code/* eligible_time end_time"
    " exit_code exit_code/* extra"
    " failed_node federation_origin federation_siblings_active federation_siblings_viable gres_detail group_id"
    " group_name het_job_id_set job_resources job_resources/* job_resrcs/* job_size_str last_sched_evaluation"
    " licenses_allocated mail_type mail_user max_cpus mcs_label memory_update_delay memory_update_margin name"
    " nice tasks_per_core tasks_per_board cpus preempt_time preemptable_time pre_sus_time"
    " priority_by_partition profile qos reboot resize_time restart_cnt scheduled_nodes selinux_context step_id"
    " step_id/* sockets_per_board start_time state_description standard_input standard_output standard_error"
    " stdin_expanded stdout_expanded stderr_expanded submit_time submit_line suspend_time system_comment"
    " time_minimum threads_per_core tres_bind tres_freq user_id user_name maximum_switch_wait_time"
    " wckey current_working_directory power/* show_flags mcs_label argv container_label": "",
}
_LISTS = {
    "nodes": (NODE, _NODE_JSON),
    "partitions": (PARTITION, _PARTITION_JSON),
    "reservations": (RESERVATION, _RESERVATION_JSON),
    "sinfo": (NODE, _SINFO_JSON),
}
"""Lists in JSON output of Slurm: the key that names an entry, and the key of ``scontrol`` for each path.

The empty key marks paths, separated by spaces, that do not affect which jobs fit where; ``*`` is any path below. The
paths are those of Slurm's data parsers up to version 0.0.45 (26.05).
"""

_MARKS = {
    "nodes": frozenset(("real_memory", "alloc_cpus", "slurmd_version", "gres_used", "tres_used")),
    "partitions": frozenset(("minimums", "maximums", "node_sets", "partition")),
    "reservations": frozenset(("node_list", "purge_completed", "core_count")),
    "sinfo": frozenset(("cpus", "memory", "gres")),
}
"""Keys in the entries of these lists that other programs do not print."""


def is_json_answer(obj: Mapping[str, Any]) -> bool:
    """Return whether an object is an answer of ``scontrol`` or ``sinfo`` with nodes, partitions or reservations.

    Some sites store only the lists; their entries are recognized by keys that no other program prints.
    """
    lists = {name: obj[name] for name in _LISTS if isinstance(obj.get(name), list)}
    if lists and {"meta", "errors", "warnings"} & set(obj):
        return True
    firsts = ((name, entries[0]) for name, entries in lists.items() if entries)
    return any(isinstance(first, dict) and bool(_MARKS[name] & first.keys()) for name, first in firsts)


def json_records(path: Path, obj: Mapping[str, Any], expander: HostlistExpander) -> Iterator[ConfLine]:
    """Yield the nodes, partitions and reservations of an answer of ``scontrol`` or ``sinfo`` in JSON or YAML."""
    if not any(obj.get(name) for name in _LISTS):
        raise bad_file(path, f"is an answer of Slurm without any {' or '.join(_LISTS)}")
    for name, (key, paths) in _LISTS.items():
        for number, told in enumerate(_listed(obj, name, f"{path}")):
            place = f"{name}[{number}]"
            if not isinstance(told, dict):
                raise bad_file(path, place, f"is {shown(told)}, must be an object")
            values = _values(told, paths)
            if not values.get(key):
                raise bad_file(path, place, "has no name")
            if name == "nodes":
                # The state is a list, or a word and a list of flags (22.05).
                flags = _listed(told, "state_flags", f"{path}: {place}")
                values["state"] = "+".join([values.get("state", "").replace(",", "+"), *map(plain_text, flags)])
            elif name == "sinfo":
                values["state"] = values.get("state", "").replace(",", "+")
                _keep_use_of_one_node(values, told)
            elif name == "partitions":
                flags = _listed(told, "flags", f"{path}: {place}")
                _set_sharing(values, [plain_text(one).upper() for one in flags])
            elif name == "reservations":
                _set_whether_active(values, plain_text(obj.get("last_update")))
            yield ConfLine(path, place, values, expander, is_printed=True)


def _keep_use_of_one_node(values: dict[str, str], told: Mapping[str, Any]) -> None:
    # Amounts in use are sums over the nodes of a row, so they are used only if the row has one node.
    found = dict(_leaves(told))
    names = found.get("nodes/nodes")
    if isinstance(names, list) and len(names) == 1:
        values["cpualloc"] = plain_text(found.get("cpus/allocated"))
        values["allocmem"] = plain_text(found.get("memory/allocated"))
    elif values.get("gresused"):
        del values["gresused"]


def _set_whether_active(values: dict[str, str], asked: str) -> None:
    # In JSON, reservations have no state, but the output has the time at which Slurm was asked.
    begin, end = values.get("starttime", ""), values.get("endtime", "")
    if all(told.isdigit() and int(told) > 0 for told in (asked, begin, end)):
        values["state"] = "ACTIVE" if int(begin) <= int(asked) < int(end) else "INACTIVE"


def _listed(obj: Mapping[str, Any], key: str, where: str) -> Sequence[Any]:
    # Return a list in the output, empty if it is missing.
    found = obj.get(key) or []
    if not isinstance(found, list):
        raise bad_file(where, key, f"is {shown(found)}, must be a list")
    return found


def _set_sharing(values: dict[str, str], flags: Sequence[str]) -> None:
    # Slurm prints the number of jobs that may share a core; 0 means exclusive nodes.
    values["default"] = "YES" if "DEFAULT" in flags else "NO"
    jobs = values.pop("oversubscribe", "")
    if jobs == "0" or "EXCLUSIVE" in jobs.upper():
        values["oversubscribe"] = "EXCLUSIVE"
    elif jobs not in ("", "1") and jobs.isdigit():
        values["oversubscribe"] = f"YES:{jobs}"
    elif jobs:
        values["oversubscribe"] = jobs
    values["state"] = values.get("state", "UP").split(",")[0]


def json_jobs(path: Path, listed: Sequence[Any]) -> Iterator[ConfLine]:
    """Yield the jobs of an answer of ``squeue`` or ``scontrol show job`` in JSON or YAML."""
    expander = HostlistExpander()
    for number, told in enumerate(listed):
        place = f"jobs[{number}]"
        if not isinstance(told, dict) or "job_id" not in told:
            raise bad_file(path, place, "is not a job of Slurm: it has no job_id")
        values = job_values(told)
        if not values.get(JOB):
            raise bad_file(path, place, f"job_id is {shown(told['job_id'])}, must be a number")
        yield ConfLine(path, place, values, expander, is_printed=True)


_UNSET = frozenset(str(2**bits - 1 - unset) for bits in (16, 32, 64) for unset in (0, 1))
"""Numbers that versions before 23.02 print for unset or infinite values."""


def job_values(told: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a job in Slurm's JSON by key, without empty ones."""
    values = {key: text for key, text in _values(told, _JOB_JSON).items() if text}
    least = values.get("numnodes", "1")
    most = values.pop("mostnodes", "0")
    # The requested number of nodes overrides the counted one, which differs if the job had nodes before.
    asked = dict(pair.partition("=")[::2] for pair in values.pop("reqtres", "").split(","))
    least = asked.get("node", least)
    values["numnodes"] = f"{least}-{most}" if most not in ("", "0") else least
    for key in (*JOB_KEYS.reported, "socks/node", "mincpusnode", "timelimit"):
        if values.get(key) in _UNSET:
            del values[key]
    if "arraytaskstring" in values:
        values["arraytaskid"] = values.pop("arraytaskstring")
    if values.get("arrayjobid") == "0":
        del values["arrayjobid"]
    if values.get("hetjobid") == "0":
        values.pop("hetjoboffset", None)
        del values["hetjobid"]
    # ``none`` means that no other job may use the nodes (JOB_SHARED of Slurm's data parsers).
    share = values.pop("oversubscribe", "").upper()
    told_as = {"NONE": "EXCLUSIVE", "": "OK", "0": "EXCLUSIVE"}
    values["oversubscribe"] = told_as.get(share, share)
    return values


def _values(told: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, str]:
    keys = {path: key for group, key in paths.items() for path in group.split()}
    values: dict[str, str] = {}
    for path, value in _leaves(told):
        above = path.rpartition("/")[0]
        while path not in keys and above and f"{above}/*" not in keys:
            above = above.rpartition("/")[0]
        # An unknown path keeps its name and is reported.
        key = keys.get(path, "" if f"{above}/*" in keys else path)
        if key and value not in (None, [], {}):
            values[key] = plain_text(value)
    return values


def _leaves(told: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in told.items():
        if isinstance(value, dict) and "number" not in value:
            yield from _leaves(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value


def unwrapped(told: Any) -> Any:
    """Return the number in an object of Slurm's JSON, None if it is unset or infinite; return other values unchanged.

    Slurm 23.02 and later print such objects, earlier versions print the number.
    """
    if isinstance(told, dict):
        return told.get("number") if told.get("set", True) and not told.get("infinite") else None
    return told


def plain_text(told: Any) -> str:
    """Return a value of Slurm's JSON as ``scontrol`` prints it: empty for None, a list with commas."""
    told = unwrapped(told)
    if isinstance(told, list):
        return ",".join(plain_text(one) for one in told)
    if isinstance(told, bool):
        return "YES" if told else "NO"
    if isinstance(told, float) and told.is_integer():
        return str(int(told))
    return "" if told is None else str(told)
