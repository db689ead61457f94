"""Clusters of Slurm from ``slurm.conf`` with ``gres.conf``, and from output of ``scontrol show`` and ``sinfo``.

Manual pages: slurm.conf(5), gres.conf(5), scontrol(1). `allocopt.cluster.slurm_keys` lists the keys that are applied,
those that are reported because they are not modelled, and those that do not affect which jobs fit where.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from allocopt.cluster.affiliations import Affiliations
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition, Reservation
from allocopt.cluster.conf_lines import NO_LIMIT, ConfLine, ConfReader
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.slurm_keys import NODESET_KEYS, PARTITION_KEYS, RESERVATION_KEYS, SETTING_KEYS, KeyReport
from allocopt.cluster.slurm_nodes import DOWN, GRES, RESERVED, slurm_nodes, with_defaults
from allocopt.cluster.slurm_records import (
    ALIASES,
    NODE,
    PARTITION,
    RESERVATION,
    is_printed,
    printed_records,
)
from allocopt.cluster.slurm_tables import is_sinfo, sinfo_records
from allocopt.errors import InvalidProblemError
from allocopt.files.cells import duration_s
from allocopt.files.faults import printable, shown

NODESET = "nodeset"
_KNOWN = (NODE, PARTITION, NODESET, GRES, DOWN, RESERVATION, "autodetect")
_MEMORY = ("defmempercpu", "defmempernode", "defmempergpu")
_NOT_MODELLED = {
    "CR_SOCKET": "whole sockets are not given",
    "CR_ONE_TASK_PER_CORE": "several tasks may share a core's threads",
    "CR_LLN": "the least loaded nodes are not preferred",
    "CR_PACK_NODES": "a job's tasks are not packed onto its first nodes",
}
"""Values of ``SelectTypeParameters`` that change which nodes or cores a job gets."""


def conf_lines(path: Path, text: str, expander: HostlistExpander) -> Iterator[ConfLine]:
    """Yield the lines of ``slurm.conf``, of ``gres.conf``, or of output of ``scontrol show`` or ``sinfo``."""
    if is_printed(text):
        yield from printed_records(path, text, expander)
        return
    if is_sinfo(text):
        yield from sinfo_records(path, text, expander)
        return
    for line in ConfReader(path, expander).lines(path, text, _KNOWN):
        values = {ALIASES.get(key, key): value for key, value in line.values.items()}
        yield replace(line, values=values)


def affiliations(lines: Sequence[ConfLine], cluster: Cluster) -> Affiliations:
    """Return the topologies that the nodes and partitions of a cluster name (slurm.conf(5), Topology)."""
    units: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    for line in with_defaults(lines, NODE):
        for pair in filter(None, line.values.get("topology", "").split(",")):
            name, *path = pair.split(":")
            if path:
                key = (name, tuple(path))
                units[key] = (*units.get(key, ()), *line.names(NODE))
    names = {line.values[PARTITION]: line.values.get("topology", "") for line in with_defaults(lines, PARTITION)}
    of_topology: dict[str, tuple[str, ...]] = {}
    for partition in cluster.partitions:
        if name := names.get(partition.name, ""):
            of_topology[name] = (*of_topology.get(name, ()), *partition.nodes)
    return Affiliations(units, of_topology, cluster.topology.nodes)


def slurm_cluster(lines: Sequence[ConfLine]) -> Cluster:
    """Return the cluster that lines of files or of Slurm's output describe, without a topology.

    Nodes that take no jobs are included and marked.
    """
    settings = {key: line for line in lines for key in line.values if _is_setting(line)}
    select, parameters = (
        settings[key].values[key].upper() if key in settings else "" for key in ("selecttype", "selecttypeparameters")
    )
    remarks = [] if parameters else ["SelectTypeParameters is not given: jobs share cores and memory of nodes"]
    for value, words in _NOT_MODELLED.items():
        if value in parameters:
            remarks.append(f"not modelled, SelectTypeParameters={value}: {words}")
    nodes, told = slurm_nodes(lines, parameters)
    remarks += [*told, *_setting_remarks(lines)]
    if not nodes:
        raise InvalidProblemError("", "names no node; give a slurm.conf with lines NodeName=")
    partitions, closed, told = _partitions(lines, nodes, settings)
    has_resources = any({"cpus", "sockets", "corespersocket"} & line.values.keys() for line in lines)
    is_bare = not has_resources and all(line.is_printed for line in lines if NODE in line.values)
    reservations, booked = _reservations(lines, nodes)
    return Cluster.of(
        nodes.values(),
        None,
        partitions,
        is_exclusive="LINEAR" in select or is_bare,
        remarks=[*remarks, *told, *booked],
        reservations=reservations,
        closed=closed,
    )


def _is_setting(line: ConfLine) -> bool:
    return not line.is_printed and not any(key in line.values for key in _KNOWN)


def _setting_remarks(lines: Sequence[ConfLine]) -> list[str]:
    report = KeyReport("setting", SETTING_KEYS)
    sets = KeyReport("NodeSet line", NODESET_KEYS)
    reservations = KeyReport("reservation", RESERVATION_KEYS)
    for line in lines:
        if _is_setting(line):
            # The known settings are those of all versions of Slurm, because sites keep old ones.
            report.add("", line.values)
        elif NODESET in line.values:
            sets.add(line.values[NODESET], line.values)
        elif RESERVATION in line.values:
            reservations.add(line.values[RESERVATION], line.values)
    return [*report.remarks(), *sets.remarks(), *reservations.remarks()]


def _reservations(lines: Sequence[ConfLine], nodes: dict[str, ClusterNode]) -> tuple[list[Reservation], list[str]]:
    """Return the active reservations and remarks, and remove the reason ``reserved`` from ``away`` of their nodes."""
    found: list[Reservation] = []
    later: list[str] = []
    stateless: list[str] = []
    partial: list[str] = []
    magnetic: list[str] = []
    for line in (line for line in lines if RESERVATION in line.values):
        name = line.values[RESERVATION]
        if line.word("state", "ACTIVE") != "ACTIVE":
            later.append(name)
            continue
        if "state" not in line.values:
            stateless.append(name)
        text = line.values.get("nodes", "")
        held = line.names("nodes") if text.upper() not in NO_LIMIT else ()
        flags = line.word("flags", "")
        cores = sum(nodes[node].cores for node in held if node in nodes)
        if 0 < line.whole("corecnt") < cores:
            partial.append(name)
        if "MAGNETIC" in flags:
            magnetic.append(name)
        found.append(Reservation(name, held, is_flexible="FLEX" in flags))
        for node in held:
            if node in nodes:
                away = tuple(why for why in nodes[node].away if why != RESERVED)
                nodes[node] = replace(nodes[node], away=away)
    told = {
        "that are not active, ignored": later,
        "whose state is not given, taken as active": stateless,
        "of some cores of their nodes, taken as reservations of whole nodes": partial,
        "that are magnetic, whose nodes go only to jobs that name the reservation": magnetic,
    }
    remarks = [f"reservations {what}: {', '.join(map(printable, names))}" for what, names in told.items() if names]
    return found, remarks


def _partitions(
    lines: Sequence[ConfLine], nodes: Mapping[str, ClusterNode], settings: Mapping[str, ConfLine]
) -> tuple[list[Partition], dict[str, str], list[str]]:
    """Return the partitions in which jobs start, the default one first; why the others are closed; and remarks."""
    sets = {line.values[NODESET]: line for line in lines if NODESET in line.values}
    report = KeyReport("partition", PARTITION_KEYS)
    remarks: list[str] = []
    found: dict[str, Partition] = {}
    closed: dict[str, str] = {}
    described = _with_states_of_tables(list(with_defaults(lines, PARTITION)))
    printed = {line.values[PARTITION] for line in described if line.is_printed}
    for line in described:
        name = line.values[PARTITION]
        # The output of a running Slurm overrides its configuration.
        if not line.is_printed and name in printed:
            continue
        report.add(name, line.values)
        # Jobs that already wait in a drained partition still start.
        if line.word("state", "UP") not in ("UP", "DRAIN"):
            closed[name] = f"is {line.word('state', '').lower()}"
            remarks.append(f"partition {printable(name)} {closed[name]}: no job starts there, left out")
            continue
        if name in found:
            raise line.error(f"partition {shown(name)} is given twice")
        found[name] = _partition(line, nodes, sets, settings)
    defaults = {line.values[PARTITION] for line in described if line.word("default", "NO") == "YES"}
    ordered = sorted(found.values(), key=lambda one: one.name not in defaults)
    return ordered, closed, [*remarks, *report.remarks()]


def _with_states_of_tables(lines: Sequence[ConfLine]) -> list[ConfLine]:
    """Return lines of partitions; for a partition with a line of its own, a table of ``sinfo`` gives only the state."""
    tables = {line.values[PARTITION]: line for line in lines if line.is_table}
    described = [line for line in lines if not line.is_table]
    found = []
    for line in described:
        table = tables.pop(line.values[PARTITION], None)
        state = {} if table is None or "state" not in table.values else {"state": table.values["state"]}
        found.append(replace(line, values=line.values | state))
    return [*found, *tables.values()]


def _partition(
    line: ConfLine, nodes: Mapping[str, ClusterNode], sets: Mapping[str, ConfLine], settings: Mapping[str, ConfLine]
) -> Partition:
    has_all = line.word("nodes", "") == "ALL"
    found: dict[str, None] = dict.fromkeys(nodes if has_all else ())
    for name in () if has_all else line.names("nodes"):
        chosen = sets.get(name)
        if chosen is None:
            found[name] = None
            continue
        feature = chosen.values.get("feature", chosen.values.get("features"))
        found |= dict.fromkeys(nodes if chosen.word("nodes", "") == "ALL" else chosen.names("nodes"))
        found |= {node.name: None for node in nodes.values() if feature in node.features}
    unknown = next((name for name in found if name not in nodes), None)
    if unknown is not None:
        raise line.error(f"Nodes has {shown(unknown)}, which no NodeName or NodeSet line defines")
    try:
        most_seconds = duration_s(line.values.get("maxtime", "UNLIMITED"), 60.0)
    except ValueError as error:
        raise line.error(f"MaxTime {error}") from None
    if most_seconds < 0:
        raise line.error(f"MaxTime is {shown(line.values['maxtime'])}, must not be negative")
    given = replace(line, values=_job_defaults(line) | line.values)
    per_core, per_node, per_gpu = (
        given.whole(key) or (settings[key].whole(key) if key in settings else 0) or None for key in _MEMORY
    )
    is_exclusive = line.word("oversubscribe", "NO").startswith("EXCLUSIVE") or line.word("exclusive", "NO") == "NODE"
    return Partition(
        name=line.values[PARTITION],
        nodes=tuple(found),
        most_seconds=None if math.isnan(most_seconds) else most_seconds,
        most_nodes=line.whole("maxnodes") or None,
        memory_per_core_mib=per_core,
        memory_per_node_mib=per_node,
        is_exclusive=is_exclusive,
        tier=line.whole("prioritytier", 1),
        least_nodes=line.whole("minnodes") or 1,
        memory_per_gpu_mib=per_gpu,
    )


def _job_defaults(line: ConfLine) -> dict[str, str]:
    # ``JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=8192``, as scontrol prints them.
    pairs = (pair.partition("=") for pair in line.values.get("jobdefaults", "").split(","))
    return {key.strip().lower(): value.strip() for key, _, value in pairs if value.strip().isdigit()}
