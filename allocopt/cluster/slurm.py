"""Topologies of Slurm, trees of switches or rows of blocks: ``topology.conf`` and ``topology.yaml``.

Slurm's manual page topology.conf(5) gives the first format: lines of ``Key=value``, keys in any case, comments, lines
that go on, other files. What ``scontrol show topology`` prints is read as well: there switches have a ``Level`` and,
above the leaves, all nodes below them; blocks have a size and are followed by the blocks that they are joined to. A
``topology.yaml`` holds several topologies, each a tree, blocks or flat (manual: topology.yaml(5)).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, RootModel

from allocopt.cluster.hostlist import HostlistError, HostlistExpander, fold_hostlist
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.cluster.slurm_conf import ConfLine, ConfReader, names_in
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import read_text
from allocopt.files.writing import write_text

_LEVELS = frozenset(1 << level for level in range(16))  # blocks that Slurm can join
_LONGEST_STEM = 200  # characters of a switch's name that are written, before a number that tells it from others
SWITCH, BLOCK, SIZES, JOINED = "switchname", "blockname", "blocksizes", "aggregatedblock"
_KEYS = {
    SWITCH: "SwitchName Nodes Switches LinkSpeed Level",
    BLOCK: "BlockName Nodes BlockIndex BlockSize",
    SIZES: "BlockSizes",
    JOINED: "Nodes BlockIndex BlockSize AggregatedBlock",
}


def slurm_topology(text: str, path: Path) -> NamedTree:
    """Return the topology in the text of a ``topology.conf``, that of trees or that of blocks."""
    reader, switches = ConfReader(path), []
    lines = list(reader.lines(path, text))
    kinds = {_kind(line): line for line in lines}
    if SWITCH in kinds and len(kinds) > 1:
        other = next(kinds[kind] for kind in (BLOCK, SIZES, JOINED) if kind in kinds)
        raise other.error("stands in a file with SwitchName lines; a file describes switches or blocks")
    if SWITCH not in kinds and BLOCK not in kinds:
        raise bad_file(path, "holds no line with SwitchName= or BlockName=")
    for line in (line for line in lines if _kind(line) in (SWITCH, BLOCK)):
        below = line.names("switches")
        # Above the leaves a switch that is printed with its level lists again the nodes of those below it.
        if below and "level" in line.values:
            nodes: tuple[str, ...] = ()
        elif line.values.get("nodes", "").upper() != "ALL":
            nodes = line.names("nodes")
        else:
            conf = line.path.with_name("slurm.conf")
            if not conf.is_file():
                raise line.error("Nodes=ALL means the nodes of slurm.conf, which is not beside this file")
            # NodeName=DEFAULT sets values for the lines behind it and names no node.
            described = ConfReader(conf, reader.expander).lines(conf, read_text(conf), "nodename")
            named = [one for one in described if one.word("nodename", "") != "DEFAULT"]
            nodes = tuple(name for one in named for name in one.names("nodename"))
        switches.append(Switch(line.values.get(SWITCH) or line.values[BLOCK], nodes, below, line.place))
    if BLOCK not in kinds:
        return tree_of_switches(switches)
    given = [line for line in lines if SIZES in line.values]
    if len(given) > 1:
        raise given[1].error(f"BlockSizes is given twice, before at {given[0].place}")
    # A topology.conf has one BlockSizes line; what scontrol prints has a size on each block instead.
    printed = {size: line for line in lines for size in line.sizes("blocksize")}
    sizes = given[0].sizes(SIZES) if given else sorted(printed)
    stated = given[0] if given else next(reversed(printed.values()), lines[0])
    return _blocks(switches, sizes, lambda fault: stated.error(f"BlockSizes {fault}"))


def write_slurm_topology(path: Path, cluster: NamedTree) -> None:
    """Write a ``topology.conf`` of blocks where they are enforced, else of switches from the leaves upwards."""
    used: set[str] = set()
    # With the first node below each, by which the trees of a forest keep their order.
    lines: list[tuple[int, str]] = []
    firsts: dict[str, int] = {}
    levels, sizes = cluster.tree.to_levels(), ",".join(map(str, cluster.block_sizes))
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
        firsts[written[name]] = int(held[0])
        lines.append((int(held[0]), f"{'BlockName' if sizes else 'SwitchName'}={written[name]} Nodes={nodes}"))
    for groups in [] if sizes else levels[1:]:
        above: dict[str, str] = {}
        for name, below in groups.items():
            members = [written[str(member)] for member in below]
            # A switch that stands for two levels is written once.
            above[name] = members[0] if list(below) == [name] else _new_name(name, used)
            if above[name] not in members:
                firsts[above[name]] = firsts[members[0]]
                lines.append((firsts[members[0]], f"SwitchName={above[name]} Switches={fold_hostlist(members)}"))
        written = above
    if sizes:
        lines.append((0, f"BlockSizes={sizes}"))
    elif cluster.tree.names and cluster.is_joined:
        lines.append((0, f"SwitchName={_new_name('top', used)} Switches={fold_hostlist(written.values())}"))
    ordered = lines if cluster.is_joined else sorted(lines, key=lambda line: line[0])
    write_text(path, "".join(f"{line}\n" for _, line in ordered))


def _new_name(name: str, used: set[str]) -> str:
    # Any other character would end the name, or begin a hostlist or a comment.
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:_LONGEST_STEM] or "switch"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    chosen = next(candidate for candidate in candidates if candidate not in used)
    used.add(chosen)
    return chosen


def _blocks(blocks: Sequence[Switch], sizes: Sequence[int], error: Callable[[str], BadFileError]) -> NamedTree:
    # Blocks, the levels above them, and the top; the sizes are in nodes, that of a block first.
    if not sizes:
        # Slurm plans with the nodes of the first block that has some, and with 2, 4, 8 and 16 times as many.
        base = next((len(block.nodes) for block in blocks if block.nodes), 1)
        sizes = [base << level for level in range(5) if 1 << level < 2 * len(blocks)]
    ratios = [size / sizes[0] if sizes[0] > 0 else 0.0 for size in sizes]
    if not all(ratio in _LEVELS for ratio in ratios) or sorted(set(sizes)) != list(sizes):
        given = ",".join(map(str, sizes))
        raise error(f"is {given}, must rise, each size a power of two times the first, at most 2^15")
    # Slurm joins neighbours in the order of the file and gives what is joined no name; ours tell size and number.
    switches, joined = list(blocks), [block.name for block in blocks]
    for below, size in pairwise(sizes):
        step = size // below
        groups = [tuple(joined[at : at + step]) for at in range(0, len(joined), step)]
        joined = [f"{size}-node block {number}" for number in range(1, len(groups) + 1)]
        switches += (Switch(name, switches=group) for name, group in zip(joined, groups, strict=True))
    switches += [Switch("all blocks", switches=tuple(joined))] if len(joined) > 1 else []
    return replace(tree_of_switches(switches), block_sizes=tuple(sizes))


def _kind(line: ConfLine) -> str:
    kind = next((key for key in _KEYS if key in line.values), None)
    if kind is None:
        right = ", ".join(ConfLine.spelled(key) for key in _KEYS)
        raise line.error(f"begins with {shown(next(iter(line.values)))}, must be one of {right}")
    known = _KEYS[kind].split()
    unknown = [key for key in line.values if ConfLine.spelled(key) not in known]
    if unknown:
        raise line.error(
            f"key {shown(unknown[0])} is unknown beside {ConfLine.spelled(kind)}; keys are {', '.join(known)}"
        )
    if not line.values[kind].strip():
        raise line.error(f"{ConfLine.spelled(kind)} is empty")
    return kind


_Name = Annotated[str, Field(min_length=1)]


class _GroupModel(FileModel):
    nodes: str | None = None


class _SwitchModel(_GroupModel):
    switch: _Name
    children: str | None = None
    link_speed: str | int | None = None


class _BlockModel(_GroupModel):
    block: _Name


class _RingModel(_GroupModel):
    ring: _Name
    nodes: str


# Where in the torus the nodes stand says nothing of a tree.
class _RegionModel(_GroupModel, extra="ignore"):
    pass


class _TorusModel(_RegionModel):
    name: _Name
    regions: tuple[_RegionModel, ...] = Field(default=(), strict=False)


class _TreeModel(FileModel):
    switches: list[_SwitchModel]


class _BlocksModel(FileModel):
    blocks: list[_BlockModel]
    block_sizes: Annotated[list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=1, default_factory=list)]


class _RingsModel(FileModel):
    rings: list[_RingModel]


class _TorusesModel(FileModel):
    toruses: list[_TorusModel]


# What is not chosen may be of a kind, or have keys, of a later version.
class _NameModel(FileModel, extra="ignore"):
    topology: _Name
    cluster_default: bool = False


class _TopologyModel(_NameModel, extra="allow"):
    tree: _TreeModel | None = None
    block: _BlocksModel | None = None
    ring: _RingsModel | None = None
    torus3d: _TorusesModel | None = None
    flat: Any = None


class _NamesModel(RootModel[Annotated[list[_NameModel], Field(min_length=1)]]):
    pass


# Of each kind of topology the key of its groups, and that of the name of one.
_KINDS = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}


def slurm_yaml_topology(obj: object, path: Path, name: str | None = None) -> NamedTree:
    """Return the topology of a name from a parsed ``topology.yaml``, or else the cluster's default or the first."""
    names = validated(_NamesModel, obj, path).root
    chosen = name or next((one.topology for one in names if one.cluster_default), names[0].topology)
    index = next((index for index, one in enumerate(names) if one.topology == chosen), None)
    if index is None:
        known = ", ".join(one.topology for one in names)
        raise bad_file(path, f"there is no topology {shown(name)}; there are {known}")
    where = f"{path}: [{index}]"
    found = validated(_TopologyModel, cast(list[object], obj)[index], where)
    noun = f"topology {shown(found.topology)}"
    if found.model_extra:
        unknown = ", ".join(map(shown, found.model_extra))
        raise bad_file(where, f"{noun} has {unknown}, must be one of {', '.join(_KINDS)}")
    kinds = [kind for kind in (*_KINDS, "flat") if getattr(found, kind) is not None]
    if len(kinds) > 1:
        raise bad_file(where, f"{noun} is both {' and '.join(kinds)}, must be one of them")
    if not kinds or kinds == ["flat"]:
        raise bad_file(where, f"{noun} is {'flat' if kinds else 'of no kind'}: it names no nodes")
    (kind,) = kinds
    key, called = _KINDS[kind]
    expander, switches = HostlistExpander(), []
    for number, one in enumerate(getattr(getattr(found, kind), key)):
        at = f"{kind}.{key}[{number}]"
        nodes = list(names_in(where, f"{at}.nodes", one.nodes, expander))
        for place, region in enumerate(getattr(one, "regions", ())):
            nodes += names_in(where, f"{at}.regions[{place}].nodes", region.nodes, expander)
        below = names_in(where, f"{at}.children", getattr(one, "children", None), expander)
        switches.append(Switch(getattr(one, called), tuple(nodes), below, f"[{index}]: {at}"))
    if found.block is not None:
        return _blocks(switches, found.block.block_sizes, lambda fault: bad_file(where, "block.block_sizes", fault))
    made = tree_of_switches(switches)
    if found.tree is not None:
        return made
    beside = f"Slurm gives jobs nodes that are side by side in a {kind}, which is not known here"
    return replace(made, is_beside=True, remarks=(*made.remarks, beside))
