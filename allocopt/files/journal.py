"""Files of lines that a long run appends to, so that it can go on after a crash.

A crash can cut the last line at most, which is dropped. A journal belongs to one process at a time; the lock ends with
the process.
"""

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, write_faults_named
from allocopt.files.writing import keep_mode


class LockedLines:
    """The lines of a file that this process alone writes; ``lines`` are those that were there.

    The file is made if it is not there. ``begins`` is what every such file begins with, ``whose`` whose journal it is,
    such as "a sweep's". Raises `BadFileError` if it cannot be read or written, or is something else, which is left as
    it is, and `UsageError` if another process has it.
    """

    def __init__(self, path: Path, begins: str, whose: str) -> None:
        self.path = path
        with write_faults_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: int | None = self._locked()
            data = path.read_bytes()
        if not data.startswith(begins.encode()[: len(data)]):
            self.close()
            raise bad_file(path, "line 1", f"is not one of {whose} journal; move the file away")
        whole, newline, _ = data.rpartition(b"\n")
        os.truncate(path, len(whole) + len(newline))
        self.lines: list[bytes] = whole.split(b"\n") if newline else []

    def append(self, *lines: str) -> None:
        """Write lines; they are on the disk when this returns."""
        with write_faults_named(self.path):
            assert self._file is not None, "it is open"
            _write(self._file, lines)

    def replace(self, lines: Iterable[str]) -> None:
        """Write the file anew."""
        with write_faults_named(self.path):
            temporary = self.path.with_name(f".{uuid4().hex}.part")
            try:
                file = _open(temporary, self.path)
                _write(file, lines)
                keep_mode(self.path, temporary)
                temporary.replace(self.path)
            finally:
                temporary.unlink(missing_ok=True)
        self.close()
        self._file = file

    def remove(self) -> None:
        """Remove the file; it is not needed any more."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let another process have the file; once is enough."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _locked(self) -> int:
        # Another one may have been put in its place, or it removed, in between.
        while True:
            file = _open(self.path, self.path)
            with suppress(FileNotFoundError):
                if os.fstat(file).st_ino == self.path.stat().st_ino:
                    return file
            os.close(file)


def _open(path: Path, shown_path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            # A pipe or a device has no end to read to.
            raise bad_file(shown_path, "is no regular file; move it away")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise UsageError(f"{shown_path} is in use: another run is writing it") from None
    except BadFileError:
        os.close(file)
        raise
    return file


def _write(file: int, lines: Iterable[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    while data:
        data = data[os.write(file, data) :]
    os.fsync(file)
