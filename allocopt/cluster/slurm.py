"""Topologies of Slurm, trees of switches or rows of blocks: ``topology.conf`` and ``topology.yaml``.

Slurm's manual page topology.conf(5) gives the first format: lines of ``Key=value``, keys in any case, comments, lines
that go on, other files. What ``scontrol show topology`` prints is read as well: there switches have a ``Level`` and,
above the leaves, all nodes below them; blocks have a size and are followed by the blocks that they are joined to. A
``topology.yaml`` holds several topologies, each a tree, blocks or flat (manual: topology.yaml(5)).
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, RootModel

from allocopt.cluster.hostlist import HostlistError, HostlistExpander, fold_hostlist
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.errors import BadFileError, MissingPackageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated
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
        below = line.names("switches", expander)
        # Above the leaves a switch that is printed with its level lists again the nodes of those below it.
        if below and "level" in line.values:
            nodes: tuple[str, ...] = ()
        elif line.values.get("nodes", "").upper() != "ALL":
            nodes = line.names("nodes", expander)
        else:
            conf = line.path.with_name("slurm.conf")
            if not conf.is_file():
                raise line.error("Nodes=ALL means the nodes of slurm.conf, which is not beside this file")
            # NodeName=DEFAULT sets values for the lines behind it and names no node.
            named = [
                one for one in _Reader(conf).lines(conf, "nodename") if one.values["nodename"].upper() != "DEFAULT"
            ]
            nodes = tuple(name for one in named for name in one.names("nodename", expander))
        switches.append(Switch(line.values.get(SWITCH) or line.values[BLOCK], nodes, below, line.place))
    if BLOCK not in kinds:
        return tree_of_switches(switches)
    given = [line for line in lines if SIZES in line.values]
    if len(given) > 1:
        raise given[1].error(f"BlockSizes is given twice, before at {given[0].place}")
    # A topology.conf has one BlockSizes line; what scontrol prints has a size on each block instead.
    printed = {size: line for line in lines for size in line.sizes("blocksize")}
    sizes = given[0].sizes(SIZES) if given else sorted(printed) or [1]
    stated = given[0] if given else printed.get(sizes[-1], lines[0])
    return tree_of_switches(_with_joined_blocks(switches, sizes, lambda fault: stated.error(f"BlockSizes {fault}")))


def write_slurm_topology(path: Path, cluster: NamedTree) -> None:
    """Write a ``topology.conf`` of switches, from the leaves upwards.

    Raises `BadFileError` if the file cannot be written, or would not be read again because of the name of a node.
    """
    used: set[str] = set()
    lines = []
    levels = cluster.tree.to_levels()
    written = {name: _new_name(name, used) for name in levels[0]}
    for name, held in levels[0].items():
        # All names are checked before anything is written.
        try:
            nodes = cluster.hostlist(map(int, held))
        except HostlistError as error:
            raise bad_file(path, f"cannot be written: {error}") from None
        if nodes.upper() == "ALL":
            fault = f"a switch with one node, {nodes!r}, would be read as one with all nodes"
            raise bad_file(path, f"cannot be written: {fault}")
        lines.append(f"SwitchName={written[name]} Nodes={nodes}")
    for groups in levels[1:]:
        above: dict[str, str] = {}
        for name, below in groups.items():
            members = [written[str(member)] for member in below]
            # A switch that stands for two levels is written once.
            above[name] = members[0] if list(below) == [name] else _new_name(name, used)
            if above[name] not in members:
                lines.append(f"SwitchName={above[name]} Switches={fold_hostlist(members)}")
        written = above
    if cluster.tree.names:
        lines.append(f"SwitchName={_new_name('top', used)} Switches={fold_hostlist(written.values())}")
    write_text(path, "".join(f"{line}\n" for line in lines))


def _new_name(name: str, used: set[str]) -> str:
    # Any other character would end the name, or begin a hostlist or a comment.
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:LONGEST_STEM] or "switch"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    chosen = next(candidate for candidate in candidates if candidate not in used)
    used.add(chosen)
    return chosen


def _with_joined_blocks(
    blocks: Sequence[Switch], sizes: Sequence[int], error: Callable[[str], BadFileError]
) -> list[Switch]:
    # Blocks, the levels above them, and the top; the sizes are in nodes, that of a block first.
    ratios = [size / sizes[0] if sizes[0] > 0 else 0.0 for size in sizes]
    powers = all(ratio.is_integer() and ratio >= 1 and int(ratio).bit_count() == 1 for ratio in ratios)
    if not powers or sorted(set(sizes)) != list(sizes):
        raise error(f"is {','.join(map(str, sizes))}, must rise, each size a power of two times the first")
    # Slurm joins neighbours in the order of the file and gives what is joined no name; ours tell size and number.
    switches, joined, before = list(blocks), [block.name for block in blocks], 1
    for size in sizes[1:]:
        blocks_in = size // sizes[0]
        step = blocks_in // before
        groups = [tuple(joined[at : at + step]) for at in range(0, len(joined), step)]
        before = blocks_in
        joined = [f"{size}-node block {number}" for number in range(1, len(groups) + 1)]
        switches += (Switch(name, switches=group) for name, group in zip(joined, groups, strict=True))
    return [*switches, Switch("all blocks", switches=tuple(joined))] if len(joined) > 1 else switches


def _names(path: Path, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Line:
    path: Path
    number: int
    values: Mapping[str, str]

    @classmethod
    def of(cls, path: Path, number: int, text: str) -> "_Line":
        line, at = cls(path, number, values := {}), 0
        text = text.rstrip()
        while at < len(text):
            match = _PAIR.match(text, at)
            if match is None:
                fault = "is not Key=value; a list goes on over lines with a backslash at the end"
                raise line.error(f"{shown(text[at:].strip())} {fault}")
            key = match[1].lower()
            if key in values:
                raise line.error(f"key {match[1]} is given twice")
            values[key] = match[3] if match[2] is None else match[2]
            at = match.end()
        return line

    @property
    def place(self) -> str:
        return f"line {self.number}"

    def error(self, fault: str) -> BadFileError:
        return bad_file(self.path, self.place, fault)

    def names(self, key: str, expander: HostlistExpander) -> tuple[str, ...]:
        return _names(self.path, f"{self.place}: {_SPELLED[key]}", self.values.get(key), expander)

    def sizes(self, key: str) -> list[int]:
        parts = [part.strip() for part in self.values[key].split(",")] if key in self.values else []
        if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
            raise self.error(f"{_SPELLED[key]} is {shown(self.values[key])}, must be numbers of nodes such as 4,16")
        return [int(part) for part in parts]


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
        for number, line in _logical_lines(text):
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
                yield _Line.of(path, number, line)


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


class _SwitchModel(FileModel):
    switch: Annotated[str, Field(min_length=1)]
    nodes: str | None = None
    children: str | None = None
    link_speed: str | int | None = None


class _BlockModel(FileModel):
    block: Annotated[str, Field(min_length=1)]
    nodes: str | None = None


class _TreeModel(FileModel):
    switches: list[_SwitchModel]


class _BlocksModel(FileModel):
    blocks: list[_BlockModel]
    block_sizes: Annotated[
        list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=1, default_factory=lambda: [1])
    ]


class _TopologyModel(FileModel):
    # Others than the one that is asked for may be of a kind that is not known.
    model_config = ConfigDict(extra="allow")

    topology: Annotated[str, Field(min_length=1)]
    cluster_default: bool = False
    tree: _TreeModel | None = None
    block: _BlocksModel | None = None
    flat: bool | None = None


class _TopologiesModel(RootModel[Annotated[list[_TopologyModel], Field(min_length=1)]]):
    """A file."""


def read_slurm_topology_yaml(path: Path, name: str | None = None) -> NamedTree:
    """Read the topology of a name, or else the cluster's default or the first.

    Errors are those of `read_topology`, and `MissingPackageError` if PyYAML is not installed.
    """
    topologies = validated(_TopologiesModel, _parsed_yaml(path), path).root
    chosen = name or next((one.topology for one in topologies if one.cluster_default), topologies[0].topology)
    index, found = next(((index, one) for index, one in enumerate(topologies) if one.topology == chosen), (0, None))
    if found is None:
        known = ", ".join(topology.topology for topology in topologies)
        raise bad_file(path, f"there is no topology {shown(name)}; there are {known}")
    place, noun = f"[{index}]", f"topology {shown(found.topology)}"
    if found.model_extra:
        unknown = ", ".join(map(shown, found.model_extra))
        raise bad_file(path, place, f"{noun} has {unknown}, must be one of tree, block")
    if found.tree is not None and found.block is not None:
        raise bad_file(path, place, f"{noun} is both tree and block, must be one of them")
    expander, switches = HostlistExpander(), []
    if found.tree is not None:
        for number, switch in enumerate(found.tree.switches):
            at = f"{place}.tree.switches[{number}]"
            nodes = _names(path, f"{at}.nodes", switch.nodes, expander)
            switches.append(Switch(switch.switch, nodes, _names(path, f"{at}.children", switch.children, expander), at))
        return tree_of_switches(switches)
    if found.block is None:
        raise bad_file(path, place, f"{noun} is neither tree nor block: it names no nodes")
    for number, block in enumerate(found.block.blocks):
        at = f"{place}.block.blocks[{number}]"
        switches.append(Switch(block.block, _names(path, f"{at}.nodes", block.nodes, expander), (), at))
    sizes, at = found.block.block_sizes, f"{place}.block.block_sizes"
    return tree_of_switches(_with_joined_blocks(switches, sizes, lambda fault: bad_file(path, at, fault)))


def _parsed_yaml(path: Path) -> object:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise MissingPackageError("topology.yaml needs PyYAML: pip install 'allocopt[yaml]'") from None
    text = read_text(path)
    try:
        parsed: object = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise bad_file(path, place, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise bad_file(path, f"is not YAML: {str(error).splitlines()[0]}") from None
    return parsed
