"""Nodes of Slurm: their resources, whether they take jobs, and the resources in use.

They come from lines of ``slurm.conf`` and ``gres.conf`` and from the output of a running Slurm. Manual pages:
slurm.conf(5), gres.conf(5), scontrol(1), sinfo(1).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from allocopt.cluster.cluster import ClusterNode, NodeUse
from allocopt.cluster.conf_lines import NO_LIMIT, ConfLine
from allocopt.cluster.slurm_keys import DOWN_KEYS, GRES_KEYS, NODE_KEYS, KeyReport
from allocopt.cluster.slurm_records import NODE
from allocopt.cluster.tres import demands_of
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import shown

GRES, DOWN = "name", "downnodes"
AWAY = {
    "DOWN_OR_DRAINED": "down or drained",
    "DOWN": "down",
    "DRAIN": "drained",
    "DRNG": "drained",
    "FAIL": "failing",
    "ERR": "in error",
    "FUT": "future",
    "INVAL": "wrongly registered",
    "MAINT": "in maintenance",
    "RES": "reserved",
    "NOT_RESP": "not responding",
    "NO_RESP": "not responding",
    "POWERING_DOWN": "powering down",
    "POWER_DOWN": "powering down",
    "POW_DN": "powering down",
    "POWRING_DN": "powering down",
    "REBOOT": "rebooting",
    "BOOT": "rebooting",
    "BLOCK": "blocked",
    "NPC": "in use for its counters",
    "PERFCTRS": "in use for its counters",
}
"""Prefixes of states and flags that keep jobs off a node (scontrol(1), sinfo(1)), with the reason."""
RESERVED = AWAY["RES"]
_AWAY_SIGNS = {
    "*": "not responding", "!": "powering down", "%": "powering down", "$": "in maintenance", "@": "rebooting",
    "^": "rebooting",
}  # fmt: skip
_ALLOCATED, _MIXED, _COMPLETING = "ALLOC", "MIX", "COMP"
MOST_NODE_GPUS = 10**6
"""Largest number of GPUs of a node."""
_HARDWARE = frozenset(("cpus", "boards", "sockets", "socketsperboard", "corespersocket"))


_UNKNOWN = "UNK"
_NO_STATE = "in an unknown state"


def why_away(state: str, *, is_printed: bool = False) -> tuple[str, ...]:
    """Return the reasons why a node in a state takes no jobs; empty if it takes jobs.

    The state is in capital letters: a base state with flags, as in ``MIXED+DRAIN``, or with symbols, as in ``IDLE*``.
    UNKNOWN is a reason in the output of a running Slurm, but not in a configuration, where it only means that slurmctld
    has to find out the state.
    """
    found: dict[str, None] = {}
    if is_printed and state.startswith((_UNKNOWN, "?")):
        found[_NO_STATE] = None
    for part in state.split("+"):
        found |= dict.fromkeys([why for beginning, why in AWAY.items() if part.startswith(beginning)][:1])
    return (*found, *dict.fromkeys(_AWAY_SIGNS[sign] for sign in state if sign in _AWAY_SIGNS))


def is_gres(line: ConfLine) -> bool:
    """Return whether a line is from ``gres.conf``, whose lines may also name nodes."""
    return GRES in line.values or "autodetect" in line.values


@dataclass(frozen=True, slots=True)
class CoreCount:
    """How ``SelectTypeParameters`` counts a node: whether threads count as cores, and whether jobs share memory."""

    counts_threads: bool
    shares_memory: bool

    @classmethod
    def of(cls, parameters: str) -> "CoreCount":
        """Read a value in capital letters; if it is empty, jobs share cores and memory."""
        return cls("CR_CPU" in parameters, not parameters or "MEMORY" in parameters)

    def node(self, line: ConfLine) -> ClusterNode:
        """Return the node that a line describes, without its name."""
        cores, per_cpu = self._cores(line)
        memory = max(line.whole("realmemory", 1) - line.whole("memspeclimit"), 0)
        reserved = line.whole("corespeccount") or math.ceil(len(_cpu_ids(line)) * per_cpu)
        features = re.split(r"[,&\s]+", line.values.get("features", line.values.get("availablefeatures", "")))
        try:
            return ClusterNode(
                name="",
                cores=max(cores - reserved, 0),
                memory_mib=memory if self.shares_memory else None,
                gpus=_gpus(line),
                features=frozenset(one for one in features if one and one.upper() not in NO_LIMIT),
                weight=line.whole("weight", 1),
                away=why_away(line.word("state", ""), is_printed=line.is_printed),
                use=self.use(line),
                cpus_per_core=1 / per_cpu,
            )
        except InvalidProblemError as error:
            raise line.error(error.fault) from None

    def _cores(self, line: ConfLine) -> tuple[int, float]:
        # Return the number of cores that jobs share, and the number of cores per CPU.
        cpus = line.whole("cpus")
        threads = max(line.whole("threadspercore", 1), 1)
        sockets = line.whole("sockets") or line.whole("boards", 1) * line.whole("socketsperboard", 1)
        cores = sockets * line.whole("corespersocket", 1)
        if not {"sockets", "socketsperboard", "corespersocket"} & line.values.keys():
            cores = max(cpus // threads, 1)
        # CPUs may count all threads, or fewer than the node has; if they are not given, they count all threads.
        cpus = cpus or cores * threads
        if self.counts_threads:
            return cpus, 1.0
        return min(cores, cpus), 1.0 if cpus <= cores else cores / cpus

    def use(self, line: ConfLine) -> NodeUse:
        """Return the resources that jobs occupy on the node of a line; the whole node if the amount is unknown."""
        state = line.word("state", "")
        cores, per_cpu = self._cores(line)
        known = {one.partition("=")[0]: one.partition("=")[2] for one in line.values.get("alloctres", "").split(",")}
        taken = line.whole("cpualloc", -1)
        if taken < 0 and known.get("cpu", "").isdigit():
            taken = int(known["cpu"])
        if _COMPLETING in state or (taken < 0 and state.startswith((_ALLOCATED, _MIXED))):
            return NodeUse(cores=cores, memory_mib=line.whole("realmemory", 1))
        try:
            gpus = _whole_gpus(line.values.get("gresused", "")) or _whole_gpus(line.values.get("alloctres", ""))
        except ValueError as error:
            raise line.error(f"GresUsed {error}") from None
        return NodeUse(cores=math.ceil(max(taken, 0) * per_cpu), memory_mib=line.whole("allocmem"), gpus=gpus)


def slurm_nodes(lines: Sequence[ConfLine], parameters: str) -> tuple[dict[str, ClusterNode], list[str]]:
    """Return the nodes by name, and remarks; output of a running Slurm overrides its configuration."""
    count = CoreCount.of(parameters)
    report = KeyReport("node", NODE_KEYS)
    nodes: dict[str, ClusterNode] = {}
    printed: dict[str, ConfLine] = {}
    gres: Counter[str] = Counter()
    unknown_use = 0
    for line in sorted(with_defaults(lines, NODE), key=lambda one: one.is_printed):
        names = line.names(NODE)
        report.add(line.values[NODE], line.values)
        made = count.node(line)
        gres.update(_other_gres(line))
        if line.is_printed and "cpualloc" not in line.values and not made.use.is_idle:
            unknown_use += len(names)
        for name in names:
            known = nodes.get(name)
            if known is None:
                nodes[name] = replace(made, name=name)
            elif not _may_come_again(known, made, line, printed.get(name)):
                raise line.error(f"node {name!r} is given twice")
            else:
                nodes[name] = _updated(known, made, line, printed.get(name))
        if line.is_printed:
            printed |= dict.fromkeys((name for name in names if name not in printed), line)
    remarks = [*report.remarks(), *_mark_down(nodes, [line for line in lines if DOWN in line.values])]
    remarks += _set_gpu_types(nodes, [line for line in lines if is_gres(line)])
    if gres:
        told = ", ".join(f"{name} on {count} node lines" for name, count in sorted(gres.items()))
        remarks.append(f"GRES that are not modelled: {told}; jobs that ask for them are left out")
    least, most = (round(pick((one.cpus_per_core for one in nodes.values()), default=1)) for pick in (min, max))
    if least < most:
        told = "a job's cores are computed with the smallest number among its possible nodes"
        remarks.append(f"nodes have {least} to {most} CPUs per core: {told}")
    if unknown_use:
        remarks.append(f"nodes in use without CPUAlloc, taken as full: {unknown_use}")
    return nodes, remarks


def _mark_down(nodes: dict[str, ClusterNode], lines: Sequence[ConfLine]) -> list[str]:
    report = KeyReport("DownNodes line", DOWN_KEYS)
    missing = 0
    for line in lines:
        report.add("", line.values)
        why = why_away(line.word("state", "DOWN"))
        for name in line.names(DOWN):
            missing += name not in nodes
            if why and name in nodes:
                nodes[name] = replace(nodes[name], away=why)
    told = [f"nodes of DownNodes that are not defined: {missing}"] if missing else []
    return [*report.remarks(), *told]


def _may_come_again(known: ClusterNode, made: ClusterNode, line: ConfLine, before: ConfLine | None) -> bool:
    """Return whether a line may describe a known node again; ``before`` is the first printed line about the node."""
    if not line.is_printed or before is None or before.path != line.path:
        return line.is_printed
    # A table has one row for each partition of a node, and values such as 16+ may differ between these rows.
    is_alike = known.away == made.away and known.use.is_idle == made.use.is_idle
    return replace(made, name=known.name) == known or (line.is_table and is_alike)


def _updated(known: ClusterNode, made: ClusterNode, line: ConfLine, before: ConfLine | None) -> ClusterNode:
    """Return a known node updated by a line that Slurm printed; ``before`` is an earlier such line."""
    if before is not None and before.path == line.path:
        return max(known, replace(made, name=known.name), key=lambda one: one.cores)
    if before is not None:
        # Two outputs of Slurm describe the node: reasons of both count, and amounts override a word such as ``mixed``.
        away = tuple(dict.fromkeys((*known.away, *made.away)))
        if "cpualloc" in before.values:
            return replace(known, away=away)
        made = replace(made, away=away)
    # A table of states does not list the resources of nodes.
    if _HARDWARE & line.values.keys():
        same_gpus = sum(made.gpus.values()) == sum(known.gpus.values()) or "gres" not in line.values
        return replace(made, name=known.name, gpus=known.gpus if same_gpus else made.gpus)
    whole = not made.use.is_idle and "cpualloc" not in line.values
    use = NodeUse(cores=known.cores, memory_mib=known.memory_mib or 0) if whole else made.use
    return replace(known, away=made.away, use=use)


def _cpu_ids(line: ConfLine) -> list[int]:
    # Return the ids in a list such as 0,1 or 0-3.
    found: list[int] = []
    for part in line.values.get("cpuspeclist", "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last.isdigit() or not last) and int(last or first) - int(first) < 2**20:
            found += range(int(first), int(last or first) + 1)
    return found


def _gpus(line: ConfLine) -> dict[str, int]:
    try:
        held = _whole_gpus(line.values.get("gres", ""))
        drained = _whole_gpus(line.values.get("gresdrain", ""))
    except ValueError as error:
        raise line.error(f"Gres {error}") from None
    if sum(held.values()) > MOST_NODE_GPUS:
        raise line.error(f"Gres is {shown(line.values['gres'])}, must be at most {MOST_NODE_GPUS} GPUs")
    for kind, count in drained.items():
        if kind in held:
            held[kind] = max(held[kind] - count, 0)
    return {kind: count for kind, count in held.items() if count}


def _whole_gpus(text: str) -> dict[str, int]:
    return {kind: int(count) for kind, count in demands_of(text).gpus}


def _other_gres(line: ConfLine) -> tuple[str, ...]:
    try:
        return demands_of(line.values.get("gres", "")).others
    except ValueError as error:
        raise line.error(f"Gres {error}") from None


def with_defaults(lines: Sequence[ConfLine], kind: str) -> Iterator[ConfLine]:
    """Yield the lines of a kind, completed by the DEFAULT lines before them; later defaults override earlier ones."""
    defaults: dict[str, str] = {}
    for line in lines:
        if kind not in line.values or (kind == NODE and is_gres(line)):
            continue
        if line.values[kind].upper() == "DEFAULT":
            defaults |= {key: value for key, value in line.values.items() if key != kind}
        elif line.is_printed:
            yield line
        else:
            yield replace(line, values=defaults | line.values)


def _set_gpu_types(nodes: dict[str, ClusterNode], gres: Sequence[ConfLine]) -> list[str]:
    # slurm.conf has the number of GPUs of a node; their type may be only in gres.conf.
    # gres.conf may have one line per device for the same nodes, so lines are grouped by their list of nodes.
    report = KeyReport("gres.conf line", GRES_KEYS)
    of_nodes: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    examples: dict[str | None, ConfLine] = {}
    for line in gres:
        report.add("", line.values)
        kind = line.values.get("type", "")
        # AutoDetect determines the GPUs of a line without a type, a file or a number.
        is_counted = kind or {"count", "file"} & line.values.keys()
        if line.values.get(GRES, "").lower() == "gpu" and is_counted:
            told = line.values.get(NODE)
            # All MultipleFiles belong to one device, such as a MIG instance (gres.conf(5)).
            of_nodes[told][kind] += line.whole("count") or len(line.names("file")) or 1
            examples.setdefault(told, line)
    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for told, held in of_nodes.items():
        for name in nodes if told is None else examples[told].names(NODE):
            types[name].update(held)
    odd = 0
    for name, held in types.items():
        if name in nodes and nodes[name].gpus == {"": held.total()}:
            nodes[name] = replace(nodes[name], gpus=dict(held))
        elif name in nodes and (not set(nodes[name].gpus) - {""} or held.total() != sum(nodes[name].gpus.values())):
            odd += bool(nodes[name].gpus) or None not in of_nodes
    odd_remark = [f"nodes whose numbers of GPUs differ in gres.conf and slurm.conf, taken from slurm.conf: {odd}"]
    return [*report.remarks(), *(odd_remark if odd else ())]
