"""Reads snapshots of the KAI scheduler, which its plug-in ``snapshot`` serves at ``/get-snapshot``, zipped or not.

The archive holds one file, ``snapshot.json``, with the keys ``config``, ``schedulerParams``, ``rawObjects`` and maybe
``discovery``. ``rawObjects`` has one list of objects for each kind; the objects do not state their kind
(https://github.com/NVIDIA/KAI-Scheduler: pkg/scheduler/plugins/snapshot/snapshot.go, docs/plugins/snapshot.md).
"""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import most_unpacked, parse_json, read_bytes

INSIDE = "snapshot.json"
_RAW = "rawObjects"
_ZIP = b"PK\x03\x04"
_KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "queues": "Queue",
    "podGroups": "PodGroup",
    "bindRequests": "BindRequest",
    "podDisruptionBudgets": "PodDisruptionBudget",
    "priorityClasses": "PriorityClass",
    "configMaps": "ConfigMap",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "persistentVolumes": "PersistentVolume",
    "csiStorageCapacities": "CSIStorageCapacity",
    "storageClasses": "StorageClass",
    "csiDrivers": "CSIDriver",
    "resourceClaims": "ResourceClaim",
    "resourceSlices": "ResourceSlice",
    "deviceClasses": "DeviceClass",
    "topologies": "Topology",
}
"""Kinds of the objects in each list of ``rawObjects``."""
_NEEDED = ("nodes", "pods")
_VERSION = {"PodGroup": "scheduling.run.ai/v2alpha2"}


def is_archive(path: Path) -> bool:
    """Return whether a file begins like a zip archive; False for a pipe, which can be read only once."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_ZIP)) == _ZIP
    except OSError:
        return False


def archived(path: Path) -> object:
    """Return the object in the JSON file of a snapshot's archive. Raises `BadFileError` for any other archive."""
    data = read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if names != [INSIDE]:
                fault = f"is a zip archive of {', '.join(names[:3]) or 'nothing'}"
                raise bad_file(path, f"{fault}; KAI's snapshot holds {INSIDE} only")
            if archive.getinfo(INSIDE).file_size > most_unpacked(len(data)):
                raise bad_file(path, f"holds more than {most_unpacked(len(data))} bytes, the most that are read")
            with archive.open(INSIDE) as stream:
                text = stream.read(most_unpacked(len(data)) + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise bad_file(path, f"cannot be unpacked: {error}") from None
    try:
        found = parse_json(text.decode("utf-8"), f"{path}: {INSIDE}")
    except UnicodeDecodeError:
        raise bad_file(path, INSIDE, "is not UTF-8") from None
    if not is_snapshot(found):
        raise bad_file(path, INSIDE, _RAW, "is missing, must be the object that KAI's /get-snapshot writes")
    return found


def is_snapshot(obj: object) -> bool:
    """Return whether an object is a snapshot of KAI's plug-in."""
    return isinstance(obj, Mapping) and _RAW in obj


def kubernetes_list(obj: object, path: Path) -> dict[str, Any]:
    """Return the objects of a snapshot as one list of Kubernetes. Raises `BadFileError` for another structure."""
    raw = obj.get(_RAW) if isinstance(obj, Mapping) else None
    if not isinstance(raw, Mapping):
        raise bad_file(path, _RAW, f"is {shown(raw)}, must be the object that KAI's /get-snapshot writes")
    for key in _NEEDED:
        if key not in raw:
            raise bad_file(path, f"{_RAW}.{key}", "is missing, must be a list of Kubernetes objects")
    items: list[Mapping[str, Any]] = []
    for key, held in raw.items():
        if key not in _KINDS:
            raise bad_file(path, f"{_RAW}.{key}", "is an unknown key; this program reads KAI's snapshots up to 2026-03")
        # Go writes an empty list as null.
        if held is not None and not isinstance(held, list):
            raise bad_file(path, f"{_RAW}.{key}", f"is {shown(held)}, must be a list")
        for number, one in enumerate(held or ()):
            if not isinstance(one, Mapping):
                raise bad_file(path, f"{_RAW}.{key}[{number}]", f"is {shown(one)}, must be an object")
            kind = _KINDS[key]
            version = {"apiVersion": _VERSION[kind]} if kind in _VERSION else {}
            items.append({**one, **version, "kind": kind})
    return {"kind": "List", "items": items}
