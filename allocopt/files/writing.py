"""Writing of files, completely or not at all, and of readable JSON."""

import gzip
import io
import json
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from allocopt.files.faults import write_faults_named


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file by `write_bytes`, compressed if its name ends in .gz; equal texts give equal files."""
    with write_faults_named(path):
        data = text.encode("utf-8")
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        # No time and no file name in the header, so that equal texts give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as stream:
            stream.write(data)
        data = buffer.getvalue()
    write_bytes(path, data)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a temporary file and rename it to the path; raise `BadFileError` if that is not possible.

    A missing folder is made. On failure, an existing file remains unchanged. On success, the new file gets the
    permissions of the file that it replaces. Pipes, devices and ``/dev/stdout`` are written directly.
    """
    # Files behind /dev/stdout, /dev/fd/63 and the like are open already; opening them again would write at the start.
    descriptor = {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))
    if str(path.parent) in ("/dev/fd", "/proc/self/fd") and path.name.isdecimal():
        descriptor = int(path.name)
    with write_faults_named(path):
        if descriptor is not None:
            # Write earlier output first.
            if stream := {1: sys.stdout, 2: sys.stderr}.get(descriptor):
                stream.flush()
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
        elif os.path.exists(path) and not os.path.isfile(path):
            # A pipe or /dev/null must not be replaced by a file. A directory raises its error here.
            path.write_bytes(data)
        else:
            place = Path(os.path.realpath(path))
            place.parent.mkdir(parents=True, exist_ok=True)
            # In the same folder, because renaming is atomic only within a file system.
            temporary = place.with_name(f".{uuid4().hex}.part")
            try:
                temporary.write_bytes(data)
                with suppress(FileNotFoundError):
                    temporary.chmod(stat.S_IMODE(place.stat().st_mode))
                temporary.replace(place)
            finally:
                temporary.unlink(missing_ok=True)


def compact_json(value: object) -> str:
    """Return JSON on one line; raise `ValueError` for NaN and infinity."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def json_by_line(value: Mapping[str, object]) -> str:
    """Return the JSON of an object with one key per line, so that files are readable and can be compared."""
    lines = [f"  {compact_json(key)}: {compact_json(item)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n"
