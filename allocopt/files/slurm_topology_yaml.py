"""``topology.yaml`` of Slurm: one or several topologies, each a tree, blocks or flat (manual: topology.yaml(5))."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, RootModel

from allocopt.cluster.hostlist import HostlistError, HostlistExpander
from allocopt.cluster.named import NamedTree
from allocopt.cluster.switches import Switch
from allocopt.errors import MissingPackageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.files.slurm_topology import check_block_sizes, joined_blocks, tree_in
from allocopt.files.validation import validated

Name = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    """Exact types, no other keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class SwitchModel(_Model):
    """A switch with its nodes or the switches below it, both hostlists."""

    switch: Name
    nodes: str | None = None
    children: str | None = None
    link_speed: str | int | None = None


class BlockModel(_Model):
    """A block of nodes."""

    block: Name
    nodes: str | None = None


class SwitchesModel(_Model):
    """A tree."""

    switches: list[SwitchModel]


class BlocksModel(_Model):
    """Blocks and the numbers of nodes that are joined."""

    blocks: list[BlockModel]
    block_sizes: Annotated[list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=1)] = [1]


class TopologyModel(_Model):
    """A topology; others than the one that is asked for may be of a kind that is not known."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    topology: Name
    cluster_default: bool = False
    tree: SwitchesModel | None = None
    block: BlocksModel | None = None
    flat: bool | None = None


class TopologiesModel(RootModel[Annotated[list[TopologyModel], Field(min_length=1)]]):
    """A file."""


def read_slurm_topology_yaml(path: Path, name: str | None = None) -> NamedTree:
    """Read a topology of a ``topology.yaml``.

    Parameters
    ----------
    path
        The file.
    name
        Name of the topology; None for the cluster's default, or else the first.

    Raises
    ------
    BadFileError
        If the file cannot be read, is not in the format, or has no such topology; it names the place.
    MissingPackageError
        If PyYAML is not installed.
    """
    topologies = validated(TopologiesModel, _parsed(path), path).root
    index, found = _chosen(path, topologies, name)
    place = f"[{index}]"
    if found.model_extra:
        unknown = ", ".join(map(shown, found.model_extra))
        raise bad_file(path, place, f"topology {shown(found.topology)} has {unknown}, must be one of tree, block")
    if found.tree is not None and found.block is not None:
        raise bad_file(path, place, f"topology {shown(found.topology)} is both tree and block, must be one of them")
    if found.tree is not None:
        return tree_in(path, list(_switches(path, f"{place}.tree.switches", found.tree)))
    if found.block is not None:
        return tree_in(path, _blocks(path, f"{place}.block", found.block))
    raise bad_file(path, place, f"topology {shown(found.topology)} is neither tree nor block: it names no nodes")


def _parsed(path: Path) -> object:
    """Parse YAML."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise MissingPackageError("topology.yaml needs PyYAML: pip install 'allocopt[yaml]'") from None
    try:
        parsed: object = yaml.safe_load(read_text(path))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = () if mark is None else (f"line {mark.line + 1}, column {mark.column + 1}",)
        raise bad_file(path, *line, f"is not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise bad_file(path, f"is not YAML: {str(error).splitlines()[0]}") from None
    return parsed


def _chosen(path: Path, topologies: Sequence[TopologyModel], name: str | None) -> tuple[int, TopologyModel]:
    """Find a topology with its number."""
    default = next((topology.topology for topology in topologies if topology.cluster_default), topologies[0].topology)
    for index, topology in enumerate(topologies):
        if topology.topology == (name or default):
            return index, topology
    known = ", ".join(topology.topology for topology in topologies)
    raise bad_file(path, f"there is no topology {shown(name)}; there are {known}")


def _switches(path: Path, place: str, tree: SwitchesModel) -> Iterator[Switch]:
    """Yield the switches of a tree."""
    expander = HostlistExpander()
    for index, model in enumerate(tree.switches):
        where = f"{place}[{index}]"
        nodes = _names(path, f"{where}.nodes", model.nodes, expander)
        yield Switch(model.switch, nodes, _names(path, f"{where}.children", model.children, expander), where)


def _blocks(path: Path, place: str, model: BlocksModel) -> list[Switch]:
    """Return the blocks, and what is above them."""
    expander = HostlistExpander()
    places = [f"{place}.blocks[{index}]" for index in range(len(model.blocks))]
    blocks = [
        Switch(block.block, _names(path, f"{where}.nodes", block.nodes, expander), (), where)
        for where, block in zip(places, model.blocks, strict=True)
    ]
    try:
        check_block_sizes(model.block_sizes)
    except ValueError as error:
        raise bad_file(path, f"{place}.block_sizes", str(error)) from None
    return [*blocks, *joined_blocks(blocks, model.block_sizes)]


def _names(path: Path, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    """Names that a hostlist stands for."""
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None
