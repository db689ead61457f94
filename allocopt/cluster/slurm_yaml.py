"""``topology.yaml`` of Slurm: one or several topologies, each a tree, blocks or flat (manual: topology.yaml(5))."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, RootModel

from allocopt.cluster.hostlist import HostlistError, HostlistExpander
from allocopt.cluster.named import NamedTree, Switch, tree_in
from allocopt.cluster.slurm import check_block_sizes, joined_blocks
from allocopt.errors import MissingPackageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import read_text

Name = Annotated[str, Field(min_length=1)]


class _SwitchModel(FileModel):
    switch: Name
    nodes: str | None = None
    children: str | None = None
    link_speed: str | int | None = None


class _BlockModel(FileModel):
    block: Name
    nodes: str | None = None


class _Tree(FileModel):
    switches: list[_SwitchModel]


class _Blocks(FileModel):
    blocks: list[_BlockModel]
    block_sizes: Annotated[
        list[Annotated[int, Field(ge=1, le=10**8)]], Field(min_length=1, default_factory=lambda: [1])
    ]


class _Topology(FileModel):
    # Others than the one that is asked for may be of a kind that is not known.
    model_config = ConfigDict(extra="allow")

    topology: Name
    cluster_default: bool = False
    tree: _Tree | None = None
    block: _Blocks | None = None
    flat: bool | None = None


class _Topologies(RootModel[Annotated[list[_Topology], Field(min_length=1)]]):
    """A file."""


def read_slurm_topology_yaml(path: Path, name: str | None = None) -> NamedTree:
    """Read the topology of a name, or else the cluster's default or the first.

    Errors are those of `read_topology`, and `MissingPackageError` if PyYAML is not installed.
    """
    topologies = validated(_Topologies, _parsed(path), path).root
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
    if found.tree is not None:
        return tree_in(path, list(_switches(path, f"{place}.tree.switches", found.tree)))
    if found.block is not None:
        return tree_in(path, _blocks(path, f"{place}.block", found.block))
    raise bad_file(path, place, f"{noun} is neither tree nor block: it names no nodes")


def _parsed(path: Path) -> object:
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


def _switches(path: Path, place: str, tree: _Tree) -> Iterator[Switch]:
    expander = HostlistExpander()
    for index, model in enumerate(tree.switches):
        where = f"{place}[{index}]"
        nodes = _names(path, f"{where}.nodes", model.nodes, expander)
        yield Switch(model.switch, nodes, _names(path, f"{where}.children", model.children, expander), where)


def _blocks(path: Path, place: str, model: _Blocks) -> list[Switch]:
    expander = HostlistExpander()
    blocks = []
    for index, block in enumerate(model.blocks):
        where = f"{place}.blocks[{index}]"
        blocks.append(Switch(block.block, _names(path, f"{where}.nodes", block.nodes, expander), (), where))
    try:
        check_block_sizes(model.block_sizes)
    except ValueError as error:
        raise bad_file(path, f"{place}.block_sizes", str(error)) from None
    return [*blocks, *joined_blocks(blocks, model.block_sizes)]


def _names(path: Path, place: str, hostlist: str | None, expander: HostlistExpander) -> tuple[str, ...]:
    try:
        return tuple(expander.expand(hostlist or ""))
    except HostlistError as error:
        raise bad_file(path, place, str(error)) from None
