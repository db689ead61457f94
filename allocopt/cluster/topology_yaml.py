"""Slurm's ``topology.yaml``: several topologies, each a tree, blocks, rings, toruses, or flat (topology.yaml(5))."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, RootModel

from allocopt.cluster.affiliations import Affiliations
from allocopt.cluster.conf_lines import names_in
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.cluster.slurm_switches import Described, joined, joined_blocks
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated

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


# The positions of nodes in a torus are not used.
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


# Topologies that are not chosen may have kinds or keys of a later version.
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


# For each kind of topology, the key of its groups, and the key of a group's name.
_KINDS = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}


def slurm_yaml_topology(
    obj: object, path: Path, name: str | None = None, site: Affiliations | None = None
) -> NamedTree | None:
    """Return the named topology of a parsed ``topology.yaml``; by default the cluster's default, or the first one.

    ``site`` says which partitions and nodes use which topology. Topologies of partitions are placed beside the main one
    if they share no nodes with it. Returns None if the main topology is flat and no other one is used.
    """
    names = validated(_NamesModel, obj, path).root
    chosen = name or next((one.topology for one in names if one.cluster_default), names[0].topology)
    if chosen not in {one.topology for one in names}:
        known = ", ".join(one.topology for one in names)
        raise bad_file(path, f"there is no topology {shown(name)}; there are {known}")
    index = [one.topology for one in names].index(chosen)
    used = Affiliations() if site is None else site
    main = _described(obj, index, path, used)
    if main is None and site is None:
        fault = f"topology {shown(chosen)} is flat and names no nodes; also give slurm.conf with --cluster"
        raise bad_file(f"{path}: [{index}]", fault)
    others = {
        one.topology: _described(obj, number, path, used)
        for number, one in enumerate(names)
        if number != index and one.topology in used.partitions
    }
    if others:
        return _side_by_side(chosen, main, others, used)
    return None if main is None else main.tree()


def _described(obj: object, index: int, path: Path, site: Affiliations) -> Described | None:
    # Return None for a flat topology, which names no nodes.
    where = f"{path}: [{index}]"
    found = validated(_TopologyModel, cast(list[object], obj)[index], where)
    noun = f"topology {shown(found.topology)}"
    if found.model_extra:
        unknown = ", ".join(map(shown, found.model_extra))
        raise bad_file(where, f"{noun} has {unknown}, must be one of {', '.join(_KINDS)}")
    kinds = [kind for kind in (*_KINDS, "flat") if getattr(found, kind) is not None]
    if len(kinds) > 1:
        raise bad_file(where, f"{noun} is both {' and '.join(kinds)}, must be one of them")
    if not kinds:
        raise bad_file(where, f"{noun} has no kind and names no nodes; add tree, block, ring, torus3d or flat")
    if kinds == ["flat"]:
        return None
    (kind,) = kinds
    key, called = _KINDS[kind]
    expander = HostlistExpander()
    switches: list[Switch] = []
    for number, one in enumerate(getattr(getattr(found, kind), key)):
        at = f"{kind}.{key}[{number}]"
        nodes = list(names_in(where, f"{at}.nodes", one.nodes, expander))
        for place, region in enumerate(getattr(one, "regions", ())):
            nodes += names_in(where, f"{at}.regions[{place}].nodes", region.nodes, expander)
        below = names_in(where, f"{at}.children", getattr(one, "children", None), expander)
        switches.append(Switch(getattr(one, called), tuple(nodes), below, f"[{index}]: {at}"))
    switches = joined(switches, site, found.topology)
    if found.block is None:
        return Described(kind, tuple(switches))
    return joined_blocks(switches, found.block.block_sizes, lambda fault: bad_file(where, "block.block_sizes", fault))


def _side_by_side(
    chosen: str, main: Described | None, others: Mapping[str, Described | None], site: Affiliations
) -> NamedTree | None:
    """Return the trees of several topologies side by side; a topology with nodes of an earlier one is left out."""
    taken: set[str] = set() if main is None else main.nodes
    remarks: list[str] = []
    described: dict[str, Described] = {} if main is None else {chosen: main}
    for name, other in others.items():
        nodes = set(site.partitions[name]) - taken if other is None else other.nodes
        if other is None:
            other = Described("tree", (Switch(name, tuple(node for node in site.nodes if node in nodes)),))
        if not nodes or nodes & taken:
            fault = "shares nodes with another topology, and this other one is used for the jobs of its partitions"
            remarks.append(f"not modelled, topology {name}: {fault}")
            continue
        described[name] = other
        taken |= nodes
    if main is None:
        rest = tuple(node for node in site.nodes if node not in taken)
        if not described:
            return None
        described[chosen] = Described("tree", (Switch(chosen, rest),) if rest else ())
    if len(described) == 1:
        made = next(iter(described.values())).tree()
        return replace(made, remarks=(*remarks, *made.remarks))
    switches: dict[str, Switch] = {}
    for name, one in described.items():
        if one.kind not in ("tree",):
            remarks.append(f"not modelled, topology {name}: the rules of a {one.kind} topology beside other topologies")
        renamed = {switch.name: f"{name}/{switch.name}" for switch in one.switches if switch.name in switches}
        for switch in one.switches:
            below = tuple(renamed.get(child, child) for child in switch.switches)
            new = renamed.get(switch.name, switch.name)
            switches[new] = replace(switch, name=new, switches=below)
    made = tree_of_switches(list(switches.values()))
    remarks.append(f"topologies side by side, each for its own partitions: {', '.join(described)}")
    return replace(made, remarks=(*remarks, *made.remarks))
