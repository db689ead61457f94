"""``topology.conf`` of Slurm: switches or blocks of nodes become a tree, and a tree such a file.

Slurm's manual page topology.conf(5) gives the format. What ``scontrol show topology`` prints is read as well: there
switches have a ``Level`` and, above the leaves, all nodes below them; blocks have a size and are followed by the
blocks that they are joined to.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from allocopt.cluster.hostlist import HostlistError, HostlistExpander, fold_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.switches import Switch, tree_of_switches
from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.files.faults import bad_file, shown
from allocopt.files.slurm_lines import SlurmLine, slurm_lines
from allocopt.files.writing import write_text

LONGEST_STEM = 200
"""Characters of a switch's name that are written, before a number that tells it from others."""

SWITCH, BLOCK, SIZES, JOINED = "switchname", "blockname", "blocksizes", "aggregatedblock"
_KEYS = {
    SWITCH: {SWITCH, "nodes", "switches", "linkspeed", "level"},
    BLOCK: {BLOCK, "nodes", "blockindex", "blocksize"},
    SIZES: {SIZES},
    JOINED: {JOINED, "nodes", "blockindex", "blocksize"},
}
_SPELLED = {
    SWITCH: "SwitchName",
    BLOCK: "BlockName",
    SIZES: "BlockSizes",
    "nodes": "Nodes",
    "switches": "Switches",
    "linkspeed": "LinkSpeed",
    "level": "Level",
    "blockindex": "BlockIndex",
    "blocksize": "BlockSize",
    JOINED: "AggregatedBlock",
}


def read_slurm_topology(path: Path) -> NamedTree:
    """Read a ``topology.conf``, that of trees or that of blocks.

    ``Nodes=ALL`` means the nodes of the ``slurm.conf`` beside it.

    Raises
    ------
    BadFileError
        If the file cannot be read, a line is not in the format, or the switches make no tree; it names the line.
    """
    lines = list(slurm_lines(path))
    kinds = {_kind(line): line for line in lines}
    if SWITCH in kinds and len(kinds) > 1:
        other = next(kinds[kind] for kind in (BLOCK, SIZES, JOINED) if kind in kinds)
        raise other.error("stands in a file with SwitchName lines; a file describes switches or blocks")
    if SWITCH not in kinds and BLOCK not in kinds:
        raise bad_file(path, "holds no line with SwitchName= or BlockName=")
    expander = HostlistExpander()
    switches = [_switch(line, expander) for line in lines if _kind(line) in (SWITCH, BLOCK)]
    if BLOCK in kinds:
        switches += joined_blocks(switches, _sizes(lines))
    return tree_in(path, switches)


def tree_in(path: Path, switches: Sequence[Switch]) -> NamedTree:
    """Make the tree of switches that a file describes.

    Raises
    ------
    BadFileError
        If they make no tree; it names the place.
    """
    try:
        return tree_of_switches(switches)
    except InvalidProblemError as error:
        raise bad_file(path, *filter(None, (error.place, error.fault))) from None


def joined_blocks(blocks: Sequence[Switch], sizes: Sequence[int]) -> Iterator[Switch]:
    """Yield the levels above blocks: a size is that of so many nodes, in blocks that follow each other; last, the top.

    Parameters
    ----------
    blocks
        The blocks, in the order of the file.
    sizes
        Block sizes in nodes, that of a block first; each a power of two times the first.
    """
    names = [block.name for block in blocks]
    joined, before = names, 1
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
    ratios = [size / sizes[0] if sizes[0] > 0 else 0 for size in sizes]
    powers = all(ratio.is_integer() and ratio >= 1 and int(ratio).bit_count() == 1 for ratio in map(float, ratios))
    if not powers or sorted(set(sizes)) != list(sizes):
        given = ",".join(map(str, sizes))
        raise ValueError(f"is {given}, must rise, each size a power of two times the first")


def write_slurm_topology(path: Path, cluster: NamedTree) -> None:
    """Write a ``topology.conf`` of switches, from the leaves upwards.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again because of the name of a node.
    """
    try:
        text = "".join(f"{line}\n" for line in _lines_of(cluster))
    except HostlistError as error:
        raise bad_file(path, f"cannot be written: {error}") from None
    write_text(path, text)


def _kind(line: SlurmLine) -> str:
    """Kind of a line; its keys must be those of the kind."""
    if not line.values.keys() & _KEYS.keys():
        known = ", ".join(_SPELLED[key] for key in _KEYS)
        raise line.error(f"begins with {shown(next(iter(line.values)))}, must be one of {known}")
    kind = next(key for key in _KEYS if key in line.values)
    unknown = [key for key in line.values if key not in _KEYS[kind]]
    if unknown:
        known = ", ".join(_SPELLED[key] for key in _SPELLED if key in _KEYS[kind])
        raise line.error(f"key {shown(unknown[0])} is unknown beside {_SPELLED[kind]}; keys are {known}")
    if not line.values[kind].strip():
        raise line.error(f"{_SPELLED[kind]} is empty")
    return kind


def _switch(line: SlurmLine, expander: HostlistExpander) -> Switch:
    """Switch, or block, of a line."""
    name = line.values.get(SWITCH) or line.values[BLOCK]
    below = tuple(_expanded(line, "switches", expander))
    # Above the leaves a switch that is printed with its level lists again the nodes of those below it.
    nodes = () if below and "level" in line.values else tuple(_nodes(line, expander))
    return Switch(name, nodes, below, line.place)


def _nodes(line: SlurmLine, expander: HostlistExpander) -> list[str]:
    """Nodes of a line."""
    if line.values.get("nodes", "").upper() != "ALL":
        return _expanded(line, "nodes", expander)
    conf = line.path.with_name("slurm.conf")
    if not conf.is_file():
        raise line.error("Nodes=ALL means the nodes of slurm.conf, which is not beside this file")
    named = [found for found in _node_lines(conf) if found.values["nodename"].upper() != "DEFAULT"]
    return [name for found in named for name in _expanded(found, "nodename", expander)]


def _node_lines(conf: Path) -> Iterator[SlurmLine]:
    """Yield the lines of a ``slurm.conf`` that name nodes."""
    return slurm_lines(conf, only="nodename")


def _expanded(line: SlurmLine, key: str, expander: HostlistExpander) -> list[str]:
    """Names that a key of a line stands for."""
    try:
        return expander.expand(line.values.get(key, ""))
    except HostlistError as error:
        raise line.error(f"{_SPELLED.get(key, 'NodeName')}: {error}") from None


def _sizes(lines: Sequence[SlurmLine]) -> list[int]:
    """Block sizes of a file, or those that its blocks are printed with; 1 where there are none."""
    found = [line for line in lines if SIZES in line.values]
    if len(found) > 1:
        raise found[1].error(f"BlockSizes is given twice, before at {found[0].place}")
    printed = {size: line for line in lines for size in _numbers(line, "blocksize")}
    sizes = _numbers(found[0], SIZES) if found else sorted(printed) or [1]
    try:
        check_block_sizes(sizes)
    except ValueError as error:
        line = found[0] if found else printed[sizes[-1]]
        raise _sized(line, error) from None
    return sizes


def _numbers(line: SlurmLine, key: str) -> list[int]:
    """Numbers of nodes that a key of a line stands for; none where the key is not there."""
    parts = [part.strip() for part in line.values[key].split(",")] if key in line.values else []
    if not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise line.error(f"{_SPELLED[key]} is {shown(line.values[key])}, must be numbers of nodes such as 4,16")
    return [int(part) for part in parts]


def _sized(line: SlurmLine, error: ValueError) -> BadFileError:
    """Return the error of a line of block sizes."""
    return line.error(f"{_SPELLED[SIZES]} {error}")


def _lines_of(cluster: NamedTree) -> Iterator[str]:
    """Yield the lines of a file."""
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
    """Return a name for a switch that Slurm can read and that no other one has."""
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:LONGEST_STEM] or "switch"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    chosen = next(candidate for candidate in candidates if candidate not in used)
    used.add(chosen)
    return chosen
