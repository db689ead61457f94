"""Slurm's ``topology.conf``, a tree of switches or a row of blocks (topology.conf(5)).

Lines hold ``Key=value`` pairs, with keys in any case; there are comments, continued lines and included files. The
output of ``scontrol show topology`` is read as well. There, a switch has a ``Level``, and switches above the leaves
list all nodes below them; a block has a size, and the groups of joined blocks follow the blocks.
"""

import re
from pathlib import Path

from allocopt.cluster.affiliations import Affiliations
from allocopt.cluster.conf_lines import ConfLine, ConfReader
from allocopt.cluster.hostlist import HostlistError, fold_hostlist
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.cluster.slurm_switches import joined, joined_blocks
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.files.writing import write_text

_LONGEST_STEM = 200  # largest number of characters that are written of a switch's name, before a number makes it unique
SWITCH, BLOCK, SIZES, JOINED = "switchname", "blockname", "blocksizes", "aggregatedblock"
_KEYS = {
    SWITCH: "SwitchName Nodes Switches LinkSpeed Level",
    BLOCK: "BlockName Nodes BlockIndex BlockSize",
    SIZES: "BlockSizes",
    JOINED: "Nodes BlockIndex BlockSize AggregatedBlock",
}


NO_AFFILIATIONS = Affiliations()
"""Affiliations of a site whose nodes and partitions name no topologies."""


def slurm_topology(text: str, path: Path, site: Affiliations = NO_AFFILIATIONS) -> NamedTree:
    """Return the topology in the text of a ``topology.conf``, of switches or of blocks.

    If ``site`` names a switch or block for a node, that overrides the file.
    """
    reader = ConfReader(path)
    switches: list[Switch] = []
    lines = list(reader.lines(path, text))
    kinds = {_kind(line): line for line in lines}
    if SWITCH in kinds and len(kinds) > 1:
        other = next(kinds[kind] for kind in (BLOCK, SIZES, JOINED) if kind in kinds)
        raise other.error("is in a file with SwitchName lines; a file must describe either switches or blocks")
    if SWITCH not in kinds and BLOCK not in kinds:
        raise bad_file(path, "holds no line with SwitchName= or BlockName=")
    for line in (line for line in lines if _kind(line) in (SWITCH, BLOCK)):
        below = line.names("switches")
        # scontrol prints levels, and lists the nodes of a switch also at the switches above it.
        if below and "level" in line.values:
            nodes: tuple[str, ...] = ()
        elif line.values.get("nodes", "").upper() != "ALL":
            nodes = line.names("nodes")
        else:
            conf = line.path.with_name("slurm.conf")
            if not conf.is_file():
                raise line.error("Nodes=ALL means the nodes of slurm.conf, which is not beside this file")
            # NodeName=DEFAULT names no node; it sets values for the lines after it.
            described = ConfReader(conf, reader.expander).lines(conf, read_text(conf), "nodename")
            named = [one for one in described if one.word("nodename", "") != "DEFAULT"]
            nodes = tuple(name for one in named for name in one.names("nodename"))
        switches.append(Switch(line.values.get(SWITCH) or line.values[BLOCK], nodes, below, line.place))
    switches = joined(switches, site, "default")
    if BLOCK not in kinds:
        return tree_of_switches(switches)
    given = [line for line in lines if SIZES in line.values]
    if len(given) > 1:
        raise given[1].error(f"BlockSizes is given twice, first at {given[0].place}")
    # A topology.conf has one BlockSizes line; what scontrol prints has a size on each block instead.
    printed = {size: line for line in lines for size in line.sizes("blocksize")}
    sizes = given[0].sizes(SIZES) if given else sorted(printed)
    stated = given[0] if given else next(reversed(printed.values()), lines[0])
    return joined_blocks(switches, sizes, lambda fault: stated.error(f"BlockSizes {fault}")).tree()


def write_slurm_topology(path: Path, cluster: NamedTree) -> None:
    """Write a ``topology.conf`` of blocks if they are enforced, otherwise of switches from the leaves upwards."""
    used: set[str] = set()
    # Each line is stored with the first node below it, so that the trees of a forest keep their order.
    lines: list[tuple[int, str]] = []
    firsts: dict[str, int] = {}
    levels, sizes = cluster.tree.to_levels(), ",".join(map(str, cluster.block_sizes))
    written = {name: _new_name(name, used) for name in levels[0]}
    for name, held in levels[0].items():
        # Check all names before anything is written.
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
            # A switch that stands for two levels is written only once.
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
    # Other characters would end the name, or begin a hostlist or a comment.
    plain = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:_LONGEST_STEM] or "switch"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    chosen = next(candidate for candidate in candidates if candidate not in used)
    used.add(chosen)
    return chosen


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
