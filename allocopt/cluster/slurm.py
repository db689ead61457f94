"""``topology.conf`` of Slurm: switches or blocks of nodes become a tree, and a tree such a file.

Slurm's manual page topology.conf(5) gives the format: lines of ``Key=value``, keys in any case, comments, lines that go
on, other files. What ``scontrol show topology`` prints is read as well: there switches have a ``Level`` and, above the
leaves, all nodes below them; blocks have a size and are followed by the blocks that they are joined to.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocopt.cluster.hostlist import HostlistError, HostlistExpander, fold_hostlist
from allocopt.cluster.named import NamedTree, Switch, tree_in
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.files.writing import write_text

MOST_INCLUDED = 10  # files that include each other beyond which they are refused
MOST_FILES, MOST_CHARACTERS = 1000, 100_000_000
"""Includes of one file, those of its includes among them, and characters of all together, that are read."""

LONGEST_STEM = 200  # characters of a switch's name that are written, before a number that tells it from others
SWITCH, BLOCK, SIZES, JOINED = "switchname", "blockname", "blocksizes", "aggregatedblock"
_KEYS = {
    SWITCH: "SwitchName Nodes Switches LinkSpeed Level",
    BLOCK: "BlockName Nodes BlockIndex BlockSize",
    SIZES: "BlockSizes",
    JOINED: "Nodes BlockIndex BlockSize AggregatedBlock",
}
_SPELLED = {key.lower(): key for key in ("NodeName", *" ".join(_KEYS.values()).split())}
# A value in quotes may hold anything; a bare one ends at a space and is no key of a pair that follows an empty one.
_PAIR = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=\s*(?:\"([^\"]*)\"|(?![A-Za-z_]\w*\s*=)([^\s\"]*))(?=\s|$)")
# In Slurm's files a backslash takes the meaning away from the character behind it.
_COMMENT = re.compile(r"(?<!\\)#.*")


def read_slurm_topology(path: Path) -> NamedTree:
    """Read a ``topology.conf``, that of trees or that of blocks.

    ``Nodes=ALL`` means the nodes of the ``slurm.conf`` beside it. Errors are those of `read_topology`.
    """
    lines = list(_Reader(path).lines(path))
    kinds = {_kind(line): line for line in lines}
    if SWITCH in kinds and len(kinds) > 1:
        other = next(kinds[kind] for kind in (BLOCK, SIZES, JOINED) if kind in kinds)
        raise other.error("stands in a file with SwitchName lines; a file describes switches or blocks")
    if SWITCH not in kinds and BLOCK not in kinds:
        raise bad_file(path, "holds no line with SwitchName= or BlockName=")
    # One expander for all lines: a few bytes each could stand for more nodes together than a memory holds.
    expander, switches = HostlistExpander(), []
    for line in (line for line in lines if _kind(line) in (SWITCH, BLOCK)):
        below = tuple(_expanded(line, "switches", expander))
        # Above the leaves a switch that is printed with its level lists again the nodes of those below it.
        nodes = () if below and "level" in line.values else tuple(_nodes(line, expander))
        switches.append(Switch(line.values.get(SWITCH) or line.values[BLOCK], nodes, below, line.place))
    if BLOCK in kinds:
        switches += joined_blocks(switches, _sizes(lines))
    return tree_in(path, switches)


def joined_blocks(blocks: Sequence[Switch], sizes: Sequence[int]) -> Iterator[Switch]:
    """Yield the levels above blocks, which follow each other in the order of the file; last, the top.

    The sizes are in nodes, that of a block first; each is a power of two times the first.
    """
    # Slurm joins neighbours in the order of the file and gives what is joined no name; ours tell size and number.
    joined, before = [block.name for block in blocks], 1
    for size in sizes[1:]:
        blocks_in = size // sizes[0]
        step = blocks_in // before
        groups = [tuple(joined[at : at + step]) for at in range(0, len(joined), step)]
        before = blocks_in
        joined = [f"{size}-node block {number}" for number in range(1, len(groups) + 1)]
        yield from (Switch(name, switches=group) for name, group in zip(joined, groups, strict=True))
    if len(joined) > 1:
        yield Switch("all blocks", switches=tuple(joined))


def check_block_sizes(sizes: Sequence[int]) -> None:
    """Raise `ValueError`, which says why, unless each size is positive and a rising power of two times the first."""
    ratios = [size / sizes[0] if sizes[0] > 0 else 0.0 for size in sizes]
    powers = all(ratio.is_integer() and ratio >= 1 and int(ratio).bit_count() == 1 for ratio in ratios)
    if not powers or sorted(set(sizes)) != list(sizes):
        given = ",".join(map(str, sizes))
        raise ValueError(f"is {given}, must rise, each size a power of two times the first")


def write_slurm_topology(path: Path, cluster: NamedTree) -> None:
    """Write a ``topology.conf`` of switches, from the leaves upwards.

    Raises `BadFileError` if the file cannot be written, or would not be read again because of the name of a node.
    """
    try:
        # All names are checked before anything is written.
        text = "".join(f"{line}\n" for line in _written(cluster))
    except HostlistError as error:
        raise bad_file(path, f"cannot be written: {error}") from None
    write_text(path, text)


@dataclass(frozen=True, slots=True)
class _Line:
    path: Path
    number: int
    values: Mapping[str, str]

    @property
    def place(self) -> str:
        return f"line {self.number}"

    def error(self, fault: str) -> BadFileError:
        return bad_file(self.path, self.place, fault)


@dataclass(slots=True)
class _Reader:
    first: Path
    files: int = 0
    characters: int = 0

    def lines(self, path: Path, only: str = "", above: int = 0) -> Iterator[_Line]:
        text = read_text(path)
        self.files, self.characters = self.files + 1, self.characters + len(text)
        if self.files > MOST_FILES or self.characters > MOST_CHARACTERS:
            fault = f"what is included has more than {MOST_FILES} files or {MOST_CHARACTERS} characters"
            raise bad_file(self.first, fault)
        for number, line in _joined(text):
            words = line.split(maxsplit=1)
            if len(words) == 2 and words[0].lower() == "include" and not words[1].startswith("="):
                found = path.parent / words[1].rstrip()
                # A name that no file can have is that of none.
                if not os.path.isfile(found):
                    raise bad_file(path, f"line {number}", f"includes {shown(words[1].rstrip())}, which is not there")
                if above == MOST_INCLUDED:
                    raise bad_file(path, f"line {number}", f"more than {MOST_INCLUDED} files include each other")
                yield from self.lines(found, only, above + 1)
            elif words and words[0].lower().startswith(only):
                yield _Line(path, number, _values(path, number, line))


def _joined(text: str) -> Iterator[tuple[int, str]]:
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


def _values(path: Path, number: int, line: str) -> dict[str, str]:
    values: dict[str, str] = {}
    at = 0
    line = line.rstrip()
    while at < len(line):
        match = _PAIR.match(line, at)
        if match is None:
            fault = "is not Key=value; a list goes on over lines with a backslash at the end"
            raise bad_file(path, f"line {number}", f"{shown(line[at:].strip())} {fault}")
        key = match[1].lower()
        if key in values:
            raise bad_file(path, f"line {number}", f"key {match[1]} is given twice")
        values[key] = match[3] if match[2] is None else match[2]
        at = match.end()
    return values


def _kind(line: _Line) -> str:
    kind = next((key for key in _KEYS if key in line.values), None)
    if kind is None:
        right = ", ".join(_SPELLED[key] for key in _KEYS)
        raise line.error(f"begins with {shown(next(iter(line.values)))}, must be one of {right}")
    known = _KEYS[kind].split()
    unknown = [key for key in line.values if _SPELLED.get(key) not in known]
    if unknown:
        raise line.error(f"key {shown(unknown[0])} is unknown beside {_SPELLED[kind]}; keys are {', '.join(known)}")
    if not line.values[kind].strip():
        raise line.error(f"{_SPELLED[kind]} is empty")
    return kind


def _nodes(line: _Line, expander: HostlistExpander) -> list[str]:
    if line.values.get("nodes", "").upper() != "ALL":
        return _expanded(line, "nodes", expander)
    conf = line.path.with_name("slurm.conf")
    if not conf.is_file():
        raise line.error("Nodes=ALL means the nodes of slurm.conf, which is not beside this file")
    named = _Reader(conf).lines(conf, "nodename")
    # NodeName=DEFAULT sets values for the lines behind it and names no node.
    lines = [found for found in named if found.values["nodename"].upper() != "DEFAULT"]
    return [name for found in lines for name in _expanded(found, "nodename", expander)]


def _expanded(line: _Line, key: str, expander: HostlistExpander) -> list[str]:
    try:
        return expander.expand(line.values.get(key, ""))
    except HostlistError as error:
        raise line.error(f"{_SPELLED[key]}: {error}") from None


def _sizes(lines: Sequence[_Line]) -> list[int]:
    found = [line for line in lines if SIZES in line.values]
    if len(found) > 1:
        raise found[1].error(f"BlockSizes is given twice, before at {found[0].place}")
    # A topology.conf has one BlockSizes line; what scontrol prints has a size on each block instead.
    printed = {size: line for line in lines for size in _numbers(line, "blocksize")}
    sizes = _numbers(found[0], SIZES) if found else sorted(printed) or [1]
    try:
        check_block_sizes(sizes)
    except ValueError as error:
        line = found[0] if found else printed[sizes[-1]]
        raise line.error(f"BlockSizes {error}") from None
    return sizes


def _numbers(line: _Line, key: str) -> list[int]:
    parts = [part.strip() for part in line.values[key].split(",")] if key in line.values else []
    if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise line.error(f"{_SPELLED[key]} is {shown(line.values[key])}, must be numbers of nodes such as 4,16")
    return [int(part) for part in parts]


def _written(cluster: NamedTree) -> Iterator[str]:
    used: set[str] = set()
    levels = cluster.tree.to_levels()
    written = {name: _new_name(name, used) for name in levels[0]}
    for name, held in levels[0].items():
        nodes = cluster.hostlist(int(node) for node in held)
        if nodes.upper() == "ALL":
            raise HostlistError(f"a switch with one node, {nodes!r}, would be read as one with all nodes")
        yield f"SwitchName={written[name]} Nodes={nodes}"
    for groups in levels[1:]:
        above: dict[str, str] = {}
        for name, below in groups.items():
            members = [written[str(member)] for member in below]
            # A switch that stands for two levels is written once.
            above[name] = members[0] if list(below) == [name] else _new_name(name, used)
            if above[name] not in members:
                yield f"SwitchName={above[name]} Switches={fold_hostlist(members)}"
        written = above
    if cluster.tree.names:
        yield f"SwitchName={_new_name('top', used)} Switches={fold_hostlist(written.values())}"


def _new_name(name: str, used: set[str]) -> str:
    # Any other character would end the name, or begin a hostlist or a comment.
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:LONGEST_STEM] or "switch"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    chosen = next(candidate for candidate in candidates if candidate not in used)
    used.add(chosen)
    return chosen
