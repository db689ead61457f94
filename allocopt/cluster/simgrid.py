"""Platforms of Batsim, which are SimGrid's, in XML: hosts and clusters with a speed, cores and power."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

from allocopt.cluster.multicore import Cluster, Machine, Node, PowerConstants, Processor, check_count
from allocopt.cluster.platform_files import MOST
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SPEED = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGTP]?)f?(?:lops)?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_POWER = ("wattage_per_state", "watt_per_state")
_MASTER = "master_host"
"""The host on which Batsim's scheduler runs; no job does."""


def read_simgrid(path: Path) -> Machine:
    """Read a platform of Batsim.

    A host becomes a node of one processor, whose speed in billions of operations per second stands for its clock. Its
    power is that of its first state in ``wattage_per_state`` (``watt_per_state``): idle, the processor's own, and all
    of it with all cores active; or, of two values, idle and all. Nothing is known of contention. Links are left out.
    Errors are those of `read_machine`.
    """
    text = read_text(path)
    if "<!ENTITY" in text:
        raise bad_file(path, "declares entities, which are not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise bad_file(path, f"is not XML: {error}") from None
    if root.tag != "platform":
        raise bad_file(path, f"is XML of {shown(root.tag)}, must be of 'platform'")
    try:
        clusters = tuple(_clusters(root, path))
        if not clusters:
            raise bad_file(path, "holds neither a host nor a cluster")
        return Machine(path.name.removesuffix(".gz").removesuffix(".xml"), clusters)
    except InvalidProblemError as error:
        raise bad_file(path, str(error)) from None


def _clusters(root: ElementTree.Element, path: Path) -> Iterator[Cluster]:
    """Yield the hosts of each zone that stand alone, and the clusters."""
    for zone in [root, *root.iter("AS"), *root.iter("zone")]:
        hosts = [
            _node(path, host, host.get("id", ""))
            for host in zone.findall("host")
            if host.get("id") != _MASTER and not any(prop.get("value") == "master" for prop in host.findall("prop"))
        ]
        if hosts:
            yield Cluster(zone.get("id", "platform"), tuple(hosts))
    elements = [*root.iter("cluster"), *root.iter("cabinet")]
    numbers = [_numbers(path, element) for element in elements]
    count = sum(len(part) for parts in numbers for part in parts)
    check_count(count, count)
    for element, parts in zip(elements, numbers, strict=True):
        prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
        nodes = [_node(path, element, f"{prefix}{number}{suffix}") for number in chain.from_iterable(parts)]
        yield Cluster(element.get("id", "cluster"), tuple(nodes))


def _numbers(path: Path, element: ElementTree.Element) -> list[range]:
    """Return the numbers of the hosts of a cluster, which its radical lists as in ``1001-1039,1041``."""
    numbers = []
    for part in map(str.strip, element.get("radical", "").split(",")):
        found = _RANGE.fullmatch(part)
        first = int(found[1]) if found else 0
        last = int(found[2] or first) if found else -1
        if last < first:
            fault = f"radical has {shown(part)}, must be as in 0-15,17"
            raise bad_file(path, f"cluster {shown(element.get('id', 'cluster'))}", fault)
        numbers.append(range(first, last + 1))
    return numbers


def _node(path: Path, element: ElementTree.Element, name: str) -> Node:
    place = f"{element.tag} {shown(name)}"
    if not name:
        raise bad_file(path, place, "has no id, must have one")
    cores = element.get("core", "1")
    if not (cores.isascii() and cores.isdigit() and len(cores) < 10 and 0 < int(cores) <= MOST):
        raise bad_file(path, place, f"core is {shown(cores)}, must be a positive number")
    # Of several states the first one counts.
    text = element.get("speed", element.get("power", "")).split(",")[0].strip()
    found = _SPEED.fullmatch(text)
    speed = _float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < speed < 1e30:
        raise bad_file(path, place, f"speed is {shown(text)}, must be as in 1.5Gf")
    power = _power(path, place, element, int(cores))
    return Node(name, (Processor(name, int(cores), speed / 1e9, power=power),))


def _power(path: Path, place: str, element: ElementTree.Element, cores: int) -> PowerConstants | None:
    values = {prop.get("id"): prop.get("value", "") for prop in element.findall("prop")}
    text = next((values[name] for name in _POWER if name in values), None)
    if text is None:
        return None
    watts = [_float(part) for part in text.split(",")[0].split(":")]
    if len(watts) not in (2, 3) or not all(0 <= watt < 1e12 for watt in watts) or watts[-1] < watts[-2]:
        fault = f"{_POWER[0]} is {shown(text)}, must be IDLE:ALL or IDLE:PROCESSOR:ALL, rising, in watts"
        raise bad_file(path, place, fault)
    shared = watts[-2]
    return PowerConstants((watts[-1] - shared) / cores, shared, watts[0])


def _float(text: str) -> float:
    """Read a number; -1 where there is none."""
    try:
        return float(text)
    except ValueError:
        return -1.0
