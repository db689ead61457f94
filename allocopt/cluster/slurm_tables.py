"""Tables that ``sinfo`` and ``squeue`` print, as lines with the keys of ``scontrol`` (sinfo(1), squeue(1)).

Columns are recognized by their titles, in any order. A title may be cut to the width of its column, and ``|`` may
separate the columns. A line with the time above the titles, as ``--long`` prints it, is skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocopt.cluster.conf_lines import ConfLine
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.slurm_jobs import HELD, RUNNING, PrintedId
from allocopt.files.faults import bad_file, shown

NODE_COLUMNS = {
    "NODELIST": "nodename",
    "HOSTNAMES": "nodename",
    "PARTITION": "partition",
    "STATE": "state",
    "STATECOMPLETE": "state",
    "CPUS": "cpus",
    "CPUS(A/I/O/T)": "cpus(a/i/o/t)",
    "MEMORY": "realmemory",
    "S:C:T": "s:c:t",
    "SOCKETS": "sockets",
    "CORES": "corespersocket",
    "THREADS": "threadspercore",
    "GRES": "gres",
    "GRES_USED": "gresused",
    "ALLOCMEM": "allocmem",
    "WEIGHT": "weight",
    "AVAIL_FEATURES": "availablefeatures",
    "ACTIVE_FEATURES": "features",
    "FEATURES": "features",
    "AVAIL": "avail",
    "TIMELIMIT": "maxtime",
    "PRIO_TIER": "prioritytier",
    "REASON": "",
    **dict.fromkeys(
        "FREE_MEM TMP_DISK NODES NODES(A/I) NODES(A/I/O/T) CPU_LOAD PRIO_JOB_FACTOR PREEMPT_MODE VERSION NODE_ADDR"
        " COMMENT EXTRA JOB_SIZE ROOT OVERSUBSCRIBE GROUPS ALLOCNODES DEFAULTTIME TIMESTAMP USER PORT CLUSTER"
        " MAX_CPUS_PER_NODE RESERVATION".split(),
        "",
    ),
}
"""Columns of ``sinfo`` with their keys, empty for columns that do not affect which jobs fit where."""

JOB_COLUMNS = {
    "JOBID": "jobid",
    "JOB_ID": "jobid",
    "ST": "jobstate",
    "STATE": "jobstate",
    "NODES": "numnodes",
    "PARTITION": "partition",
    "REASON": "reason",
    "NODELIST(REASON)": "reason",
    "NODELIST": "nodelist",
    "TIME_LIMIT": "timelimit",
    "PRIORITY": "priority",
    "FEATURES": "features",
    "DEPENDENCY": "dependency",
    "RESERVATION": "reservation",
    "REQ_NODES": "reqnodelist",
    "EXC_NODES": "excnodelist",
    "TRES_PER_NODE": "trespernode",
    "TRES_PER_JOB": "tresperjob",
    "TRES_PER_TASK": "trespertask",
    "TRES_PER_SOCKET": "trespersocket",
    "MIN_MEMORY": "minmemorynode",
    "LICENSES": "licenses",
    "CONTIGUOUS": "contiguous",
    "CORE_SPEC": "corespec",
    "NETWORK": "network",
    "MIN_TMP_DISK": "mintmpdisknode",
    "BURST_BUFFER": "burstbuffer",
    "PREFER": "prefer",
    "SEGMENT_SIZE": "segmentsize",
    "REQ_SWITCH": "switches",
    "EXCLUSIVE": "exclusive",
    **dict.fromkeys(
        "NAME USER UID GROUP ACCOUNT QOS TIME TIME_LEFT TIME_MIN TIME_USED START_TIME SUBMIT_TIME"
        " END_TIME ELIGIBLE_TIME ACCRUE_TIME PENDING_TIME LAST_SCHED_EVAL DEADLINE SCHEDNODES EXEC_HOST"
        " ALLOC_NODES ALLOC_SID BATCH_FLAG BATCH_HOST CLUSTER CLUSTER_FEATURES COMMAND COMMENT ADMIN_COMMENT"
        " SYSTEM_COMMENT CPUS NUM_CPUS MIN_CPUS MAX_CPUS TASKS NTASKS CPUS_PER_TASK THREADS_PER_CORE S:C:T"
        " NTASKS_PER_NODE NTASKS_PER_CORE NTASKS_PER_SOCKET NTASKS_PER_BOARD SOCKETS_PER_NODE CORES_PER_SOCKET"
        " OVER_SUBSCRIBE NICE WCKEY WORK_DIR STDERR STDIN STDOUT RESTART_COUNT REQUEUE REBOOT PREEMPT_TIME"
        " ARRAY_JOB_ID ARRAY_TASK_ID HET_JOB_ID HET_JOB_OFFSET HET_JOB_ID_SET TRES_ALLOC TRES_BIND TRES_FREQ"
        " TRES_PER_STEP EXIT_CODE DERIVED_EC ASSOC_ID CONTAINER MCSLABEL MAX_NODES ORIGIN PROFILE SLUID".split(),
        "",
    ),
}
"""Columns of ``squeue`` with their keys, as in `NODE_COLUMNS`.

A job of a table gets whole nodes, so its tasks and CPUs have no effect.
"""

_TIME = re.compile(r"\w{3} \w{3} +\d+ [\d:]{8} \d{4}")
_LAST_IN_BRACKETS = re.compile(r"(?:^|(?<=\s))\((?!null\)).*\)\s*$")
_FREE_TEXT = frozenset("NAME REASON COMMENT ADMIN_COMMENT SYSTEM_COMMENT COMMAND WORK_DIR NODELIST(REASON)".split())
# Columns whose cells may be empty; if a row has too few cells, the first of these columns are taken as empty.
_EMPTY_IN_SINFO = ("RESERVATION", "COMMENT", "EXTRA", "REASON", "GRES")
_EMPTY_IN_SQUEUE = ("NODELIST(REASON)", "NODELIST", "COMMENT", "SCHEDNODES", "EXEC_HOST", "DEPENDENCY")
_LEAST_CUT = 4  # least number of letters of a cut title


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a file.

    Parameters
    ----------
    path
        The file.
    titles
        Titles of the columns, in full if they are known.
    cut
        By the index of a column whose title is cut, its width. Cells of this width may be cut as well.
    lines
        The lines below the titles.
    first
        Number of the first of these lines in the file.
    is_parted
        Whether ``|`` separates the columns.
    may_be_empty
        Titles of columns whose cells may be empty; if a row has too few cells, the first of these are taken as empty.
    """

    path: Path
    titles: tuple[str, ...]
    cut: Mapping[int, int]
    lines: tuple[str, ...]
    first: int
    is_parted: bool
    may_be_empty: Sequence[str]

    @classmethod
    def of(cls, path: Path, text: str, columns: Mapping[str, str], may_be_empty: Sequence[str]) -> "Table":
        """Return the table in a text; ``columns`` has the known titles."""
        lines = text.splitlines()
        at = next((number for number, line in enumerate(lines) if line.strip() and not _TIME.fullmatch(line.strip())))
        is_parted = "|" in lines[at]
        words = [word.strip() for word in (lines[at].split("|") if is_parted else lines[at].split())]
        titles = [_whole(word, columns) for word in words]
        cut = {number: len(word) for number, word in enumerate(words) if titles[number] != word}
        return cls(path, tuple(titles), cut, tuple(lines[at + 1 :]), at + 2, is_parted, may_be_empty)

    def rows(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each row's place and its cells by title. Raises `BadFileError` for a wrong number of cells."""
        for number, line in enumerate(self.lines, self.first):
            if not line.strip() or line.split() == list(self.titles):
                continue
            place = f"line {number}"
            cells = [cell.strip() for cell in line.split("|")] if self.is_parted else self._cells(line)
            if len(cells) != len(self.titles):
                fault = f"has {len(cells)} columns, but there are {len(self.titles)} titles: {' '.join(self.titles)}"
                raise bad_file(self.path, place, fault)
            yield place, dict(zip(self.titles, cells, strict=True))

    def is_cut(self, title: str, cell: str) -> bool:
        """Return whether a cell may be cut: it fills a column that is too narrow for its title."""
        return any(self.titles[number] == title and len(cell) >= width for number, width in self.cut.items())

    def _cells(self, line: str) -> list[str]:
        # A reason in brackets, in the last column, may contain spaces, and so may one column of free text.
        cells = line.split()
        if self.titles[-1] == "NODELIST(REASON)" and (found := _LAST_IN_BRACKETS.search(line)):
            cells = [*line[: found.start()].split(), found[0].strip()]
        missing = len(self.titles) - len(cells)
        empty = [self.titles.index(title) for title in self.may_be_empty if title in self.titles]
        if 0 < missing <= len(empty):
            for number in sorted(empty[:missing]):
                cells.insert(number, "")
            return cells
        free = [number for number, title in enumerate(self.titles) if title in _FREE_TEXT]
        if cells and len(cells) >= len(self.titles) - missing and self.titles[-1] == "NODELIST(REASON)":
            free = free[:-1]
        if missing < 0 and free:
            at = free[0]
            cells[at : at + 1 - missing] = [" ".join(cells[at : at + 1 - missing])]
        return cells


def _whole(word: str, columns: Mapping[str, str]) -> str:
    # Return the full title if only one known title begins with the word.
    if word in columns or len(word) < _LEAST_CUT:
        return word
    found = [title for title in columns if title.startswith(word)]
    return found[0] if len(found) == 1 else word


def titles_of(text: str) -> frozenset[str]:
    """Return the words of the title line of a table, below the time that ``--long`` prints."""
    for line in text.splitlines()[:3]:
        if line.strip() and not _TIME.fullmatch(line.strip()):
            return frozenset(word.strip() for word in re.split(r"[|\s]+", line))
    return frozenset()


def is_sinfo(text: str) -> bool:
    """Return whether a text is a table of ``sinfo``: nodes and states, or nodes and reasons."""
    titles = titles_of(text)
    names = bool({"NODELIST", "HOSTNAMES"} & titles) and not is_squeue(text)
    return names and bool({"STATE", "STATECOMPLETE"} & titles or titles >= {"REASON", "TIMESTAMP"})


def is_squeue(text: str) -> bool:
    """Return whether a text is a table of ``squeue``."""
    return bool({"JOBID", "JOB_ID"} & titles_of(text))


def sinfo_records(path: Path, text: str, expander: HostlistExpander) -> Iterator[ConfLine]:
    """Yield the nodes of a table of ``sinfo``, one line for each row, and then the partitions of the rows.

    A node in several partitions has several rows. ``sinfo --list-reasons`` lists only nodes that take no jobs.
    """
    table = Table.of(path, text, NODE_COLUMNS, _EMPTY_IN_SINFO)
    if "NNODES" in table.titles:
        raise bad_file(path, "is a table of Flux; print its resources with `flux resource R`")
    states = {} if {"STATE", "STATECOMPLETE"} & set(table.titles) else {"state": "DOWN_OR_DRAINED"}
    partitions: dict[str, dict[str, str]] = {}
    rows = list(table.rows())
    if not rows:
        raise bad_file(path, "is a table without nodes: it has no line below its titles")
    for place, row in rows:
        values = _values(row, table)
        if not values.get("nodename"):
            raise bad_file(path, place, "names no node")
        about = {key: values.pop(key) for key in ("partition", *_OF_PARTITION) if key in values}
        yield ConfLine(path, place, values | states, expander, is_printed=True, is_table=True)
        if name := about.get("partition"):
            # The default partition has a star after its name.
            partition = partitions.setdefault(name.removesuffix("*"), {"default": "YES" if name[-1] == "*" else "NO"})
            partition |= {_OF_PARTITION[key]: told for key, told in about.items() if key in _OF_PARTITION}
            partition["nodes"] = ",".join(filter(None, (partition.get("nodes"), values["nodename"])))
    for name, told in partitions.items():
        about = {"partitionname": name, **told}
        yield ConfLine(path, f"partition {shown(name)}", about, expander, is_printed=True, is_table=True)


_OF_PARTITION = {"avail": "state", "maxtime": "maxtime", "prioritytier": "prioritytier"}


def _values(row: Mapping[str, str], table: Table) -> dict[str, str]:
    """Return the cells of a row by their keys."""
    values = {}
    for title, cell in row.items():
        key = NODE_COLUMNS.get(title, title.lower())
        # A list of features or GPUs that is cut may be wrong, so it is reported as unknown.
        if key in ("availablefeatures", "gres") and table.is_cut(title, cell):
            key = f"{title} cut short"
        if key:
            values[key] = cell
    return _plain_row(values)


def _plain_row(values: dict[str, str]) -> dict[str, str]:
    cpus = values.pop("cpus(a/i/o/t)", "").split("/")
    if len(cpus) == 4:
        values |= {"cpualloc": cpus[0], "cpus": cpus[3]}
    shape = values.pop("s:c:t", "").split(":")
    if len(shape) == 3:
        values |= {"sockets": shape[0], "corespersocket": shape[1], "threadspercore": shape[2]}
    for key in ("cpus", "realmemory", "weight", "sockets", "corespersocket", "threadspercore", "cpualloc"):
        # ``16+`` means that nodes of the row have 16 or more, so 16 is taken; ``2K`` is 2 x 1024.
        told = values.get(key, "").removesuffix("+")
        if (match := re.fullmatch(r"(\d{1,12})(?:\.\d+)?K", told, re.ASCII)) is not None:
            told = str(int(match[1]) * 1024)
        if key in values:
            values[key] = told
    return values


_STATES = {
    "PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING", "CF": "CONFIGURING", "S": "SUSPENDED", "ST": "STOPPED",
    "RS": "RESIZING", "SO": "STAGE_OUT", "SI": "SIGNALING", "RH": "REQUEUE_HOLD", "RF": "REQUEUE_FED",
    "RQ": "REQUEUED", "RD": "RESV_DEL_HOLD", "SE": "SPECIAL_EXIT", "RV": "REVOKED",
}  # fmt: skip
_CUT_STATE = 8  # letters of a state that squeue --long prints
_WIDTH = 9  # to which squeue cuts names of partitions by default
_TITLES = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)"
_DEFAULT_ROW = re.compile(r"\s*\d\S*\s+\S+\s+.*\s(?:[A-Z]{1,3})\s+[\d:-]+\s+\d+K?(?:-\d+K?)?(?:\s.*)?")


def _whole_state(word: str) -> str:
    # Return the state for its two letters, or for a word that may be cut: COMPLETI.
    if len(word) == _CUT_STATE:
        return next((state for state in sorted(RUNNING | HELD) if state.startswith(word)), word)
    return _STATES.get(word, word)


def with_titles(text: str) -> str:
    """Add the titles to a table of ``squeue --noheader`` in the default format; return any other text unchanged."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f"{_TITLES}\n{text}" if _DEFAULT_ROW.fullmatch(first) else text


def squeue_records(path: Path, text: str) -> Iterator[tuple[ConfLine, str]]:
    """Yield the jobs of a table of ``squeue`` as records, like `printed_jobs`; no key occurs twice."""
    table = Table.of(path, text, JOB_COLUMNS, _EMPTY_IN_SQUEUE)
    missing = [titles for titles in (("ST", "STATE"), ("NODES",)) if not set(titles) & set(table.titles)]
    if missing:
        fault = f"is a table of squeue without a column {' or '.join(missing[0])}; print it with `squeue`"
        raise bad_file(path, f"line {table.first - 1}", f'{fault}, or with `squeue -h -t PD -o "%i %D"`')
    for place, row in table.rows():
        values: dict[str, str] = {}
        for title, cell in row.items():
            if key := JOB_COLUMNS.get(title, title.lower()):
                values[key] = cell
        values["jobstate"] = _whole_state(values["jobstate"])
        if values["jobstate"] in RUNNING and "NODELIST(REASON)" in row:
            values.setdefault("nodelist", row["NODELIST(REASON)"])
        if "NODELIST(REASON)" in row and "REASON" in row:
            values["reason"] = row["REASON"]
        if len(values.get("partition", "")) >= _WIDTH:
            values["partition"] += "*"
        name = PrintedId.of(values["jobid"])
        if name.tasks:
            values |= {"arrayjobid": name.array, "arraytaskid": name.tasks}
        if name.together:
            values |= {"hetjobid": name.together, "hetjoboffset": name.job.partition("+")[2]}
        values["numnodes"] = re.sub(r"(\d+)K", lambda found: str(int(found[1]) * 1024), values["numnodes"])
        yield ConfLine(path, place, values, HostlistExpander(), is_printed=True), ""
