"""Nodes and partitions of Slurm: ``slurm.conf`` with ``gres.conf``, and what ``scontrol show`` prints of them.

Manual pages: slurm.conf(5), gres.conf(5), scontrol(1). Of the hundreds of keys only those that say which jobs fit where
are looked at, so that files of any version are read. Lines of these and Slurm's other files are ``Key=value`` pairs,
keys in any case, with comments, lines that go on, and other files that are included.
"""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.hostlist import HostlistError, HostlistExpander
from allocopt.cluster.request import Request
from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.files.cells import duration_s
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

MOST_INCLUDED = 10  # files that include each other beyond which they are refused
MOST_FILES, MOST_CHARACTERS = 1000, 100_000_000
"""Includes of one file, those of its includes among them, and characters of all together, that are read."""

_SPELLED = {
    key.lower(): key
    for key in (
        "NodeName PartitionName SwitchName Nodes Switches LinkSpeed Level BlockName BlockIndex BlockSize BlockSizes"
        " AggregatedBlock"
    ).split()
}
# A value in quotes may hold anything; a bare one ends at a space and is no key of a pair that follows an empty one.
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(?:\"([^\"]*)\"|(?![A-Za-z_]\w*\s*=)([^\s\"]*))(?=\s|$)")
# In Slurm's files a backslash takes the meaning away from the character behind it.
_COMMENT = re.compile(r"(?<!\\)#.*")


def names_in(path: Path | str, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    """Expand a hostlist of a file, None for an empty one; raise `BadFileError` that names the place."""
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None


@dataclass(frozen=True, slots=True)
class ConfLine:
    """Pairs of a line, by their keys in lower case; errors name file and line."""

    path: Path
    number: int
    values: dict[str, str]
    expander: HostlistExpander  # that of all lines: a few bytes each could stand for more nodes than a memory holds

    @property
    def place(self) -> str:
        """The line's number in words."""
        return f"line {self.number}"

    def error(self, fault: str) -> BadFileError:
        """Make the error that names file, line and fault."""
        return bad_file(self.path, self.place, fault)

    @staticmethod
    def spelled(key: str) -> str:
        """Return a key as Slurm's manual spells it, if it is one whose value is read as a list."""
        return _SPELLED.get(key, key)

    def names(self, key: str) -> tuple[str, ...]:
        """Expand the hostlist of a key, an empty one if the key is not there."""
        return names_in(self.path, f"{self.place}: {self.spelled(key)}", self.values.get(key), self.expander)

    def word(self, key: str, default: str) -> str:
        """Return the value of a key in capital letters."""
        return self.values.get(key, default).strip().upper()

    def whole(self, key: str, default: int = 0) -> int:
        """Return the whole number of a key, the default where it is not there or limits nothing."""
        text = self.values.get(key, "").strip()
        if not text or text.upper() in NO_LIMIT:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 13):
            raise self.error(f"{key} is {shown(text)}, must be a whole number")
        return int(text)

    def sizes(self, key: str) -> list[int]:
        """Return the numbers of nodes of a key, none if it is not there."""
        parts = [part.strip() for part in self.values[key].split(",")] if key in self.values else []
        if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
            raise self.error(f"{self.spelled(key)} is {shown(self.values[key])}, must be numbers of nodes such as 4,16")
        return [int(part) for part in parts]


@dataclass(slots=True)
class ConfReader:
    """Reads a file and those that it includes, within limits for all together."""

    first: Path
    expander: HostlistExpander = field(default_factory=HostlistExpander)
    files: int = 0
    characters: int = 0

    def lines(self, path: Path, text: str, only: str | tuple[str, ...] = "", above: int = 0) -> Iterator[ConfLine]:
        """Yield the lines of a text, those of included files in place, whose first key begins with one of ``only``."""
        self.files, self.characters = self.files + 1, self.characters + len(text)
        if self.files > MOST_FILES or self.characters > MOST_CHARACTERS:
            fault = f"what is included has more than {MOST_FILES} files or {MOST_CHARACTERS} characters"
            raise bad_file(self.first, fault)
        for number, line in _logical_lines(text):
            words = line.split(maxsplit=1)
            if len(words) == 2 and words[0].lower() == "include" and not words[1].startswith("="):
                found = path.parent / words[1].rstrip()
                # A name that no file can have is that of none.
                if not os.path.isfile(found):
                    raise bad_file(path, f"line {number}", f"includes {shown(words[1].rstrip())}, which is not there")
                if above == MOST_INCLUDED:
                    raise bad_file(path, f"line {number}", f"more than {MOST_INCLUDED} files include each other")
                yield from self.lines(found, read_text(found), only, above + 1)
            elif words and words[0].lower().startswith(only):
                made, pairs, at = ConfLine(path, number, {}, self.expander), line.rstrip(), 0
                while at < len(pairs):
                    match = _PAIR.match(pairs, at)
                    if match is None:
                        fault = "is not Key=value; a list goes on over lines with a backslash at the end"
                        raise made.error(f"{shown(pairs[at:].strip())} {fault}")
                    key = match[1].lower()
                    if key in made.values:
                        raise made.error(f"key {match[1]} is given twice")
                    made.values[key] = match[3] if match[2] is None else match[2]
                    at = match.end()
                yield made


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    first, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw).rstrip()
        goes_on = line.endswith("\\")
        # Indentation does not break a list in two.
        held += (line.lstrip() if held.endswith(",") else line).removesuffix("\\").rstrip(" " * goes_on)
        first = first or number
        if not goes_on:
            yield first, held
            first, held = 0, ""
    if held:
        yield first, held


NODE, PARTITION, NODESET, GRES, DOWN = "nodename", "partitionname", "nodeset", "name", "downnodes"
SETTINGS = ("selecttype", "selecttypeparameters", "defmempercpu", "defmempernode")
AWAY = {
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
    "REBOOT": "rebooting",
    "BOOT": "rebooting",
    "BLOCKED": "blocked",
}
"""Beginnings of states and flags with which a node takes no job, of scontrol(1) and sinfo(1), and why."""
_AWAY_SIGNS = {
    "*": "not responding", "!": "powering down", "%": "powering down", "$": "in maintenance", "@": "rebooting",
    "^": "rebooting",
}  # fmt: skip
NO_LIMIT = ("UNLIMITED", "INFINITE", "NONE", "N/A", "(NULL)", "UNKNOWN")

# The same thing has other names in scontrol, and had in older versions.
_ALIASES = {
    "cputot": "cpus",
    "procs": "cpus",
    "activefeatures": "features",
    "feature": "features",
    "priority": "prioritytier",
    "shared": "oversubscribe",
}
_PRINTED_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z/:]*)=")
# Users write what they like into these; all but the name of a job have a line of their own.
_FREE_TEXT = re.compile(
    r"\s+(?:\w*Comment|Command|WorkDir|Std(?:Err|In|Out)|Extra|SubmitLine|Container\w*|MailUser|BurstBuffer\w*)="
)
# What is read of a job; it stands in its record once.
_JOB_KEYS = frozenset(
    "jobid jobstate numnodes numtasks ntaskspern:b:s:c cpus/task minmemorynode minmemorycpu trespernode tresperjob"
    " trespertask partition features excnodelist reqnodelist oversubscribe".split()
)
_MEMORY = re.compile(r"(\d{1,12})(?:\.\d+)?([KMGT]?)", re.ASCII)
_GPU = re.compile(r"gpu(?::((?!-)[^:()\s]*[^:()\s\d][^:()\s]*))?(?::(\d{1,9}))?(?:\(.*\))?", re.ASCII)


def slurm_cluster(texts: Mapping[Path, str]) -> Cluster:
    """Return the cluster of the texts of files, or of what ``scontrol show`` prints, without a topology."""
    expander = HostlistExpander()
    lines = [line for path, text in texts.items() for line in _lines(path, text, expander)]
    settings = {key: line for line in lines for key in line.values if key in SETTINGS}
    select, parameters = (settings[key].values[key] if key in settings else "" for key in SETTINGS[:2])
    remarks = [] if parameters else ["SelectTypeParameters is not given: jobs share cores and memory of nodes"]
    nodes, away = _nodes(lines, parameters.upper())
    told = ", ".join(f"{why} {count}" for why, count in sorted(Counter(away.values()).items()))
    if away:
        remarks.append(f"nodes that take no jobs, left out: {len(away)} ({told})")
    if not nodes:
        fault = f"no node takes jobs: {told}" if away else "names no node, as NodeName= of slurm.conf does"
        raise InvalidProblemError("", fault)
    _tell_types(nodes, [line for line in lines if GRES in line.values])
    sets = {line.values[NODESET]: line for line in lines if NODESET in line.values}
    partitions: list[Partition] = []
    described = list(_with_defaults(lines, PARTITION))
    for line in described:
        if line.word("state", "UP") not in ("UP", "DRAIN"):
            remarks.append(f"partition {line.values[PARTITION]} is {line.word('state', '').lower()}: left out")
            continue
        partition = _partition(line, nodes, away, sets, settings)
        if any(partition.name == one.name for one in partitions):
            raise line.error(f"partition {shown(partition.name)} is given twice")
        partitions.append(partition)
    defaults = {line.values[PARTITION] for line in described if line.word("default", "NO") == "YES"}
    partitions.sort(key=lambda one: one.name not in defaults)
    return Cluster.of(nodes.values(), None, partitions, is_exclusive="LINEAR" in select.upper(), remarks=remarks)


def _nodes(lines: Sequence[ConfLine], parameters: str) -> tuple[dict[str, ClusterNode], dict[str, str]]:
    """Return the nodes that take jobs by name, and why each of the others takes none."""
    nodes: dict[str, ClusterNode] = {}
    away: dict[str, str] = {}
    for line in _with_defaults(lines, NODE):
        names = line.names(NODE)
        if why := why_away(line.word("state", "UNKNOWN")):
            away |= dict.fromkeys(names, why)
            continue
        shares_memory = not parameters or "MEMORY" in parameters
        one = _node(line, counts_threads="CR_CPU" in parameters, shares_memory=shares_memory)
        for name in names:
            if name in nodes:
                raise line.error(f"node {shown(name)} is given twice")
            nodes[name] = replace(one, name=name)
    for line in lines:
        if DOWN in line.values and (why := why_away(line.word("state", "DOWN"))):
            away |= {name: why for name in line.names(DOWN) if nodes.pop(name, None) is not None}
    return nodes, away


def why_away(state: str) -> str:
    """Return why a node in a state takes no job, empty if it takes some.

    The state is in capital letters: a base state with flags, as in ``MIXED+DRAIN``, or with signs, as in ``IDLE*``.
    """
    for part in state.split("+"):
        for beginning, why in AWAY.items():
            if part.startswith(beginning):
                return why
    return next((_AWAY_SIGNS[sign] for sign in state if sign in _AWAY_SIGNS), "")


def _lines(path: Path, text: str, expander: HostlistExpander) -> Iterator[ConfLine]:
    if re.search(r"^(NodeName|PartitionName)=\S+\s+(Arch|CoresPerSocket|AllowGroups)=", text, re.MULTILINE) and (
        "CPUAlloc=" in text or "AllowGroups=" in text
    ):
        yield from _records(path, text, "NodeName|PartitionName", expander)
        return
    known = (NODE, PARTITION, NODESET, GRES, DOWN, *SETTINGS)
    for line in ConfReader(path, expander).lines(path, text, known):
        values = {_ALIASES.get(key, key): value for key, value in line.values.items()}
        if next(iter(values)) in known:
            yield replace(line, values=values)


def _records(path: Path, text: str, first: str, expander: HostlistExpander) -> Iterator[ConfLine]:
    # A record goes on to the next one, on many lines or, with --oneliner, on one.
    starts = [found.start() for found in re.finditer(rf"^(?:{first})=", text, re.MULTILINE)]
    for start, end in pairwise([*starts, len(text)]):
        values: dict[str, str] = {}
        for key, value in _printed_pairs(text[start:end]):
            values.setdefault(key, value)
        yield ConfLine(path, text.count("\n", 0, start) + 1, values, expander)


def _printed_pairs(record: str) -> Iterator[tuple[str, str]]:
    keys = list(_PRINTED_KEY.finditer(record))
    for found, end in zip(keys, [*(key.start() for key in keys[1:]), len(record)], strict=True):
        yield _ALIASES.get(found[1].lower(), found[1].lower()), record[found.end() : end].strip()


def _job_records(path: Path, text: str) -> Iterator[tuple[ConfLine, str]]:
    """Yield each record of ``scontrol show job``, and a key that it holds twice, empty for none.

    Users may write anything into names and comments, line breaks and ``NumNodes=3`` too. So only a line behind an empty
    one begins a record, and lines of free text are left out. A key that still stands there twice is somebody's text.
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
            # The name ends its line; with --oneliner all is one line.
            head = head.partition(" JobName=")[0]
        kept = (line for line in tail if not _FREE_TEXT.match(line))
        values: dict[str, str] = {}
        twice = ""
        for key, value in _printed_pairs("\n".join((head, *kept))):
            if values.setdefault(key, value) != value and key in _JOB_KEYS:
                twice = key
        yield ConfLine(path, start + 1, values, HostlistExpander()), twice


def pending_jobs(text: str, path: Path) -> tuple[dict[str, Request], list[str]]:
    """Return what the jobs that wait ask for, by id, as ``scontrol show job`` prints them, and remarks.

    A job whose record holds a key twice is left out and remarked, since its user may have written one of them. Raises
    `BadFileError` if a value cannot be read.
    """
    found: dict[str, Request] = {}
    forged: list[str] = []
    for line, twice in _job_records(path, text):
        if twice:
            forged.append(f"job {line.values['jobid']} has {twice} twice at {line.place}")
            continue
        if line.word("jobstate", "") != "PENDING":
            continue
        line.values["least"], _, line.values["most"] = line.values.get("numnodes", "1").partition("-")
        given = {key: value for key, value in line.values.items() if value.upper() not in NO_LIMIT}
        # As many GPUs on each node as a job asks for in all are enough for it.
        of_node, of_task = (
            _gpus(replace(line, values={"gres": re.sub("gres[:/]", "", text)}))
            for text in (given.get("trespernode") or given.get("tresperjob", ""), given.get("trespertask", ""))
        )
        nodes = line.whole("least", 1)
        try:
            request = Request(
                max(line.whole("numtasks", 1), nodes),
                nodes,
                line.whole("most") or None,
                int(given.get("ntaskspern:b:s:c", "0").split(":")[0]) or None,
                line.whole("cpus/task", 1),
                _mebibytes(line, "minmemorynode"),
                _mebibytes(line, "minmemorycpu"),
                tuple(of_node.items()),
                tuple(of_task.items()),
                partition=given.get("partition", "").split(",")[0] or None,
                constraint=given.get("features"),
                excluded=given.get("excnodelist", ""),
                required=given.get("reqnodelist", ""),
                is_exclusive=line.word("oversubscribe", "OK") in ("NO", "EXCLUSIVE"),
            )
        except (InvalidProblemError, ValueError) as error:
            raise line.error(str(error)) from None
        if found.setdefault(line.values["jobid"], request) is not request:
            raise line.error(f"job {shown(line.values['jobid'])} is given twice")
    remarks = [f"jobs left out, their user may have forged the record: {len(forged)} ({forged[0]})"] if forged else []
    return found, remarks


def _mebibytes(line: ConfLine, key: str) -> int | None:
    text = line.word(key, "0")
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise line.error(f"{key} is {shown(text)}, must be such as 4000M or 16G")
    return round(int(match[1]) * 1024.0 ** ("KMGT".find(match[2] or "M") - 1)) or None


def _with_defaults(lines: Sequence[ConfLine], kind: str) -> Iterator[ConfLine]:
    # What a DEFAULT line sets holds until another one sets it anew; the other values stay.
    defaults: dict[str, str] = {}
    for line in lines:
        if kind not in line.values or (kind == NODE and GRES in line.values):
            continue
        if line.values[kind].upper() == "DEFAULT":
            defaults |= {key: value for key, value in line.values.items() if key != kind}
        else:
            yield replace(line, values=defaults | line.values)


def _node(line: ConfLine, *, counts_threads: bool, shares_memory: bool) -> ClusterNode:
    cpus, threads = line.whole("cpus"), line.whole("threadspercore", 1)
    sockets = line.whole("sockets") or line.whole("boards", 1) * line.whole("socketsperboard", 1)
    cores = sockets * line.whole("corespersocket", 1)
    if not {"sockets", "socketsperboard", "corespersocket"} & line.values.keys():
        cores = max(cpus // max(threads, 1), 1)
    # CPUs may be those of all threads, or fewer than the node has.
    available = (cpus or cores * threads) if counts_threads else min(cores, cpus or cores)
    memory = max(line.whole("realmemory", 1) - line.whole("memspeclimit"), 0)
    features = re.split(r"[,&\s]+", line.values.get("features", ""))
    try:
        return ClusterNode(
            "",
            max(available - line.whole("corespeccount"), 0),
            memory if shares_memory else None,
            _gpus(line),
            frozenset(one for one in features if one and one.upper() not in NO_LIMIT),
            line.whole("weight", 1),
        )
    except InvalidProblemError as error:
        raise line.error(error.fault) from None


def _gpus(line: ConfLine) -> dict[str, int]:
    held: Counter[str] = Counter()
    for gres in re.split(r",(?![^(]*\))", line.values.get("gres", "")):
        if gres.split(":")[0].strip() == "gpu":
            match = _GPU.fullmatch(gres.strip())
            if match is None:
                raise line.error(f"Gres is {shown(gres)}, must be such as gpu:a100:4")
            held[match[1] or ""] += int(match[2] or 1)
    return dict(held)


def _tell_types(nodes: dict[str, ClusterNode], gres: Sequence[ConfLine]) -> None:
    # How many a node has is what slurm.conf says; of which type may stand in gres.conf alone.
    # Files may have a line for each device, and all of them for the same nodes: these are gone through once.
    of_nodes: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    examples: dict[str | None, ConfLine] = {}
    for line in gres:
        kind = line.values.get("type", "")
        if line.values[GRES] == "gpu" and kind:
            told = line.values.get(NODE)
            of_nodes[told][kind] += line.whole("count") or len(line.names("file")) or 1
            examples.setdefault(told, line)
    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for told, held in of_nodes.items():
        for name in nodes if told is None else examples[told].names(NODE):
            types[name].update(held)
    for name, held in types.items():
        if name in nodes and nodes[name].gpus == {"": held.total()}:
            nodes[name] = replace(nodes[name], gpus=dict(held))


def _partition(
    line: ConfLine,
    nodes: Mapping[str, ClusterNode],
    away: Container[str],
    sets: Mapping[str, ConfLine],
    settings: Mapping[str, ConfLine],
) -> Partition:
    has_all = line.word("nodes", "") == "ALL"
    found: dict[str, None] = dict.fromkeys(nodes if has_all else ())
    for name in () if has_all else line.names("nodes"):
        chosen = sets.get(name)
        if chosen is None:
            found[name] = None
            continue
        feature = chosen.values.get("feature", chosen.values.get("features"))
        found |= dict.fromkeys(chosen.names("nodes"))
        found |= {node.name: None for node in nodes.values() if feature in node.features}
    unknown = next((name for name in found if name not in nodes and name not in away), None)
    if unknown is not None:
        raise line.error(f"Nodes has {shown(unknown)}, which no NodeName or NodeSet names")
    try:
        most_seconds = duration_s(line.values.get("maxtime", "UNLIMITED"), 60.0)
    except ValueError as error:
        raise line.error(f"MaxTime {error}") from None
    if most_seconds < 0:
        raise line.error(f"MaxTime is {shown(line.values['maxtime'])}, must not be negative")
    per_core, per_node = (
        line.whole(key) or (settings[key].whole(key) if key in settings else 0) or None for key in SETTINGS[2:]
    )
    return Partition(
        line.values[PARTITION],
        tuple(name for name in found if name in nodes),
        None if math.isnan(most_seconds) else most_seconds,
        line.whole("maxnodes") or None,
        per_core,
        per_node,
        line.word("oversubscribe", "NO").startswith("EXCLUSIVE"),
        line.whole("prioritytier", 1),
    )
