"""Writing files so that they are whole or not there, and JSON that people can read."""

import gzip
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from allocopt.files.faults import bad_file, os_fault


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, as `write_bytes` does; ``.gz`` is compressed, to the same bytes every time."""
    try:
        data = _encoded(path, text)
    except ValueError as error:
        raise bad_file(path, f"cannot be written: {error}") from None
    write_bytes(path, data)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside its place and rename it.

    A missing folder is made. On failure an older file stays as it was.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    """
    try:
        _write_beside(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise bad_file(path, f"cannot be written: {os_fault(error)}") from None
    except ValueError as error:
        raise bad_file(path, f"cannot be written: {error}") from None


def compact_json(value: object) -> str:
    """JSON on one line; NaN and infinity are refused with a `ValueError`."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def json_by_line(value: Mapping[str, object]) -> str:
    """JSON of an object with one key a line, so that files can be read and compared."""
    lines = [f"  {compact_json(key)}: {compact_json(item)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n"


def _encoded(path: Path, text: str) -> bytes:
    """Bytes of the file."""
    data = text.encode("utf-8")
    if path.suffix != ".gz":
        return data
    buffer = io.BytesIO()
    # Neither time nor file name go into the header: equal texts give equal files.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as stream:
        stream.write(data)
    return buffer.getvalue()


def _write_beside(path: Path, data: bytes) -> None:
    """Write under a temporary name in the same folder, then rename."""
    if path.exists() and not path.is_file():
        # A directory answers with its error; a pipe or /dev/null must not be replaced by a file.
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex}.part")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
