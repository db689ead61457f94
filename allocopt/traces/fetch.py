"""Traces by name: fetched once, checked by a checksum, kept for the user, there without a network from then on.

The files lie in the Parallel Workloads Archive (D. G. Feitelson, D. Tsafrir, D. Krakov: Experience with using the
Parallel Workloads Archive, J. Parallel Distrib. Comput. 74(10), 2014, doi:10.1016/j.jpdc.2014.06.013), whose traces
may be used with an acknowledgement of the archive and of those whom the header of the file names.
"""

import gzip
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import decompressed, read_bytes
from allocopt.files.writing import write_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future

ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
TIMEOUT_S, LONGEST_DOWNLOAD_S = 30.0, 600.0
"""Seconds without a byte, and in all, after which a server is given up."""
LARGEST_DOWNLOAD = 200_000_000
"""Bytes beyond which an answer is refused."""


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Where a trace is, and what it is.

    Parameters
    ----------
    name
        Its name.
    url
        Where its file is, plain or compressed by gzip.
    sha256
        Checksum of the file when it is decompressed.
    about
        Machine and size, in a few words.
    """

    name: str
    url: str
    sha256: str
    about: str = ""


def _archived(name: str, path: str, sha256: str, about: str) -> tuple[str, TraceSource]:
    """Return a trace of the archive by its name."""
    return name, TraceSource(name, f"{ARCHIVE}/{path}.swf.gz", sha256, about)


SOURCES: Mapping[str, TraceSource] = MappingProxyType(
    dict(
        (
            _archived(
                "CEA-Curie",
                "l_cea_curie/CEA-Curie-2011-2.1-cln",
                "b732a04aea71e2f154c8feee580be549d0bba1462bc91ec581944cb3dd6d442d",
                "2011-12, 93,312 processors, cleaned",
            ),
            _archived(
                "CTC-SP2",
                "l_ctc_sp2/CTC-SP2-1996-3.1-cln",
                "8e33a9b597e1ddda2d2164347bac08c9444e1a2620a7947df52f0a1622ec4cde",
                "1996-97, 338 processors, cleaned",
            ),
            _archived(
                "HPC2N",
                "l_hpc2n/HPC2N-2002-2.2-cln",
                "77b8993c73ae438385f6c0015708251f52dc316267b03ac19a406fbea2802afa",
                "2002-06, 240 processors, cleaned",
            ),
            _archived(
                "KTH-SP2",
                "l_kth_sp2/KTH-SP2-1996-2.1-cln",
                "fba36494c4e4257f72182e8b629ebb0bcb054b3b82851ef957445bd627adcc87",
                "1996-97, 100 processors, cleaned",
            ),
            _archived(
                "SDSC-BLUE",
                "l_sdsc_blue/SDSC-BLUE-2000-4.2-cln",
                "13892839f430583231a14bb811fd50a31b5b529eb37faacdbbefb71e73390e3e",
                "2000-03, 1,152 processors, cleaned",
            ),
            _archived(
                "SDSC-SP2",
                "l_sdsc_sp2/SDSC-SP2-1998-4.2-cln",
                "2bb635f4b5793f52bd49ccb8fd913d95f9c5be6346925162cadcaf0117e28cf2",
                "1998-2000, 128 processors, cleaned; for research, not for profit",
            ),
            _archived(
                "Sandia-Ross",
                "l_sandia_ross/Sandia-Ross-2001-1.1-cln",
                "acee6b96aa76f815d9a6a81ee6d3e3026f462b6e0c340f9f4ef465e05b3c22b3",
                "2001-05, 1,524 processors, cleaned",
            ),
        )
    )
)
"""Traces that are known by name. The checksums are those of the files of August 2013 to February 2015."""


def cache_folder() -> Path:
    """Folder in which fetched traces are kept: ``$XDG_CACHE_HOME/allocopt/traces``, or that in ``~/.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache"
    return Path(cache) / "allocopt" / "traces"


def cached_trace(name: str, folder: Path | None = None) -> Path | None:
    """Return the file of a trace that was fetched before; None if there is none."""
    path = (folder or cache_folder()) / f"{name}.swf.gz"
    return path if path.is_file() else None


def known_source(name: str, url: str | None = None, sha256: str | None = None) -> TraceSource:
    """Return where a trace is.

    Parameters
    ----------
    name
        A name of `SOURCES`, or any other one with where it is.
    url
        Where the file is; None for where it is known to be.
    sha256
        Its checksum; None for the one that is known.

    Raises
    ------
    UsageError
        If the name is no file name, or not known and either is not given.
    """
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        raise UsageError(f"{name!r} is no name for a trace")
    known = SOURCES.get(name) or TraceSource(name, "", "")
    found = replace(known, url=url or known.url, sha256=(sha256 or known.sha256).lower())
    if not (found.url and found.sha256):
        fault = f"there is no trace {name!r}; there are {', '.join(SOURCES)}, or any other with --url and --sha256"
        raise UsageError(fault)
    return found


def fetch_trace(source: TraceSource, folder: Path | None = None) -> Path:
    """Return the file of a trace, fetched if it is not there or is not the one.

    Parameters
    ----------
    source
        Where it is.
    folder
        Folder in which it is kept; None for `cache_folder`.

    Raises
    ------
    BadFileError
        If it cannot be fetched, or what comes has another checksum: then nothing is kept.
    """
    there = cached_trace(source.name, folder)
    if there is not None and _is_right(source, there):
        return there
    data = _download(source.url)
    text = _decompressed(source.url, data)
    found = hashlib.sha256(text).hexdigest()
    if found != source.sha256:
        raise bad_file(source.url, f"has the checksum {found}, must have {source.sha256}: it is another file")
    path = (folder or cache_folder()) / f"{source.name}.swf.gz"
    write_bytes(path, data if data is not text else gzip.compress(text, mtime=0))
    return path


def _is_right(source: TraceSource, path: Path) -> bool:
    """Whether a file that is kept is whole."""
    try:
        return hashlib.sha256(_decompressed(str(path), read_bytes(path))).hexdigest() == source.sha256
    except BadFileError:
        return False


def _download(url: str) -> bytes:
    """Fetch a file."""
    # What the network needs is loaded for that.
    import http.client
    import urllib.error
    from concurrent.futures import Future
    from threading import Thread

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{shown(url)} must begin with http:// or https://")
    answer: Future[bytes] = Future()
    # A server may take its time with every byte; whoever waits for another thread needs not wait for that.
    Thread(target=_answer, args=(url, answer), daemon=True).start()
    try:
        data = answer.result(LONGEST_DOWNLOAD_S)
    except urllib.error.HTTPError as error:
        raise bad_file(url, f"the server answers {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        late = f"it takes longer than {LONGEST_DOWNLOAD_S:g} s"
        raise bad_file(url, f"cannot be fetched: {reason if answer.done() else late}") from None
    if len(data) > LARGEST_DOWNLOAD:
        raise bad_file(url, f"has more than {LARGEST_DOWNLOAD} bytes")
    return data


def _answer(url: str, answer: "Future[bytes]") -> None:
    """Set what a server sends, or what went wrong."""
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            data: bytes = response.read(LARGEST_DOWNLOAD + 1)
            if response.length and len(data) <= LARGEST_DOWNLOAD:
                raise ConnectionError(f"it ends {response.length} bytes before the length that was announced")
    except Exception as error:
        # It is raised again, whatever it is, where the answer is waited for.
        answer.set_exception(error)
    else:
        answer.set_result(data)


def _decompressed(where: str, data: bytes) -> bytes:
    """Undo compression by gzip, if there is any."""
    return decompressed(where, data) if data[:2] == b"\x1f\x8b" else data
