"""Fetches traces by name, verifies their checksums, and keeps them in the user's cache for use without a network.

The files are in the Parallel Workloads Archive (D. G. Feitelson, D. Tsafrir, D. Krakov: Experience with using the
Parallel Workloads Archive, J. Parallel Distrib. Comput. 74(10), 2014, doi:10.1016/j.jpdc.2014.06.013). Use of a trace
requires an acknowledgement of the archive and of the people named in the file's header.
"""

import gzip
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from allocopt.errors import BadFileError, UsageError
from allocopt.files.cache import cache_folder
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import decompressed, read_bytes
from allocopt.files.writing import write_bytes

_ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
# Limits in seconds: without a byte from the server, and for the whole download.
_TIMEOUT_S, _LONGEST_DOWNLOAD_S = 30.0, 600.0
# Largest response in bytes.
_LARGEST_DOWNLOAD = 200_000_000


# Name, version in the name of the file, and description. The folder is the name in lower case.
_ARCHIVED = (
    ("CEA-Curie", "2011-2.1", "2011-12, 93,312 processors, cleaned"),
    ("CTC-SP2", "1996-3.1", "1996-97, 338 processors, cleaned"),
    ("HPC2N", "2002-2.2", "2002-06, 240 processors, cleaned"),
    ("KTH-SP2", "1996-2.1", "1996-97, 100 processors, cleaned"),
    ("SDSC-BLUE", "2000-4.2", "2000-03, 1,152 processors, cleaned"),
    ("SDSC-SP2", "1998-4.2", "1998-2000, 128 processors, cleaned; for research, not for profit"),
    ("Sandia-Ross", "2001-1.1", "2001-05, 1,524 processors, cleaned"),
)
# Checksums of the decompressed files, which date from August 2013 to February 2015.
_SHA256 = {
    "CEA-Curie": "b732a04aea71e2f154c8feee580be549d0bba1462bc91ec581944cb3dd6d442d",
    "CTC-SP2": "8e33a9b597e1ddda2d2164347bac08c9444e1a2620a7947df52f0a1622ec4cde",
    "HPC2N": "77b8993c73ae438385f6c0015708251f52dc316267b03ac19a406fbea2802afa",
    "KTH-SP2": "fba36494c4e4257f72182e8b629ebb0bcb054b3b82851ef957445bd627adcc87",
    "SDSC-BLUE": "13892839f430583231a14bb811fd50a31b5b529eb37faacdbbefb71e73390e3e",
    "SDSC-SP2": "2bb635f4b5793f52bd49ccb8fd913d95f9c5be6346925162cadcaf0117e28cf2",
    "Sandia-Ross": "acee6b96aa76f815d9a6a81ee6d3e3026f462b6e0c340f9f4ef465e05b3c22b3",
}


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A trace to be fetched: the address of its file, plain or compressed by gzip, and the checksum of its text."""

    name: str
    url: str
    sha256: str
    about: str = ""

    @classmethod
    def known(cls, name: str, url: str | None = None, sha256: str | None = None) -> "TraceSource":
        """Return a source of `SOURCES`, or another one if its address and checksum are given."""
        if not name or name.startswith(".") or set(name) & set("/\\\0"):
            raise UsageError(f"{name!r} is not a valid trace name")
        known = SOURCES.get(name) or cls(name, "", "")
        found = replace(known, url=url or known.url, sha256=(sha256 or known.sha256).lower())
        if not (found.url and found.sha256):
            fault = f"there is no trace {name!r}; there are {', '.join(SOURCES)}; give --url and --sha256 for any other"
            raise UsageError(fault)
        return found

    def fetch(self, folder: Path | None = None) -> Path:
        """Return the file of the trace in a folder (see `cached_trace`); fetch it if it is missing or damaged."""
        path = _kept(self.name, folder)
        if path is None:
            raise UsageError("there is no home folder in which to keep the trace: set XDG_CACHE_HOME to a folder")
        # Fetch a damaged file again; it may have been cut off by a full disk.
        with suppress(BadFileError):
            if path.is_file() and _unpacked(str(path), read_bytes(path))[1] == self.sha256:
                return path
        data = _download(self.url)
        text, found = _unpacked(self.url, data)
        if found != self.sha256:
            raise bad_file(self.url, f"has the checksum {found}, must have {self.sha256}: it is another file")
        # Without a timestamp, so that equal traces are equal files.
        write_bytes(path, data if data is not text else gzip.compress(text, mtime=0))
        return path


SOURCES: Mapping[str, TraceSource] = MappingProxyType(
    {
        name: TraceSource(name, f"{_ARCHIVE}/l_{folder}/{name}-{version}-cln.swf.gz", _SHA256[name], about)
        for name, version, about in _ARCHIVED
        for folder in (name.lower().replace("-", "_"),)
    }
)
"""Traces that are known by name."""


def _kept(name: str, folder: Path | None) -> Path | None:
    cache = cache_folder()
    traces = folder or (cache and cache / "traces")
    return traces and traces / f"{name}.swf.gz"


def cached_trace(name: str) -> Path | None:
    """Return the file of a fetched trace in ``$XDG_CACHE_HOME/allocopt/traces``; None if there is none."""
    path = _kept(name, None)
    return path if path is not None and path.is_file() else None


def _download(url: str) -> bytes:
    # Load network modules only for a download.
    import http.client
    import urllib.error
    import urllib.request
    from concurrent.futures import Future
    from threading import Thread

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
                data: bytes = response.read(_LARGEST_DOWNLOAD + 1)
                if response.length and len(data) <= _LARGEST_DOWNLOAD:
                    raise ConnectionError(f"the response ends {response.length} bytes early")
        except Exception as error:
            # `answer.result` raises it again in the waiting thread.
            answer.set_exception(error)
        else:
            answer.set_result(data)

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{shown(url)} must begin with http:// or https://")
    answer: Future[bytes] = Future()
    # A slow server may send byte after byte for ever. Waiting for a thread limits the time in total.
    Thread(target=ask, daemon=True).start()
    try:
        data = answer.result(_LONGEST_DOWNLOAD_S)
    except urllib.error.HTTPError as error:
        raise bad_file(url, f"the server responds {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        late = f"the download takes longer than {_LONGEST_DOWNLOAD_S:g} s"
        raise bad_file(url, f"cannot be fetched: {reason if answer.done() else late}") from None
    if len(data) > _LARGEST_DOWNLOAD:
        raise bad_file(url, f"has more than {_LARGEST_DOWNLOAD} bytes, which is the limit")
    return data


def _unpacked(where: str, data: bytes) -> tuple[bytes, str]:
    # The text of a file, plain or compressed, and its checksum.
    text = decompressed(where, data) if data[:2] == b"\x1f\x8b" else data
    return text, hashlib.sha256(text).hexdigest()
