"""Store of compiled kernels: one file per kernel, named after everything that its machine code depends on.

The name has a digest of the bytecode, the constants and the options of an entry and of all helpers that are part of it.
After a change in any of them another file is used, independent of modification times. A file begins with a digest of
the rest, so that a kernel is compiled again if a crash left its file incomplete.
"""

import atexit
import fcntl
import hashlib
import logging
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import numba
import numpy as np
from llvmlite.binding import ModuleRef, parse_assembly
from numba.core import sigutils, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment, _rebuild_env, lookup_environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from allocopt.files.cache import cache_folder

VARIABLE = "NUMBA_CACHE_DIR"
VERSION = 2  # of the code that `allocopt.kernels.compiled` makes; raise it if that changes
DIGEST_BYTES = hashlib.sha256().digest_size
UNREADABLE = (pickle.UnpicklingError, AttributeError, ImportError, EOFError)
"""Errors of unpickling a kernel, for example if a class that it takes has moved."""

logger = logging.getLogger("allocopt")


class KernelStore(_Cache):  # type: ignore[misc]
    """File of one kernel, with the interface of numba's caches."""

    def __init__(self, function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> None:
        self._function, self._signature = function, signature
        self._recipe = repr((VERSION, str(signature), _told(options)))
        self._path: Path | None = None

    @cached_property
    def parts(self) -> bytes:
        """Everything that the machine code depends on."""
        return b"".join([self._recipe.encode(), *_Parts(self._signature).of(self._function)])

    @property
    def cache_path(self) -> str:
        """The folder in which new files are stored."""
        return str(writable_folder())

    @property
    def _stem(self) -> str:
        return f"{self._function.__module__}.{self._function.__name__}-{_machine()}-"

    @cached_property
    def name(self) -> str:
        """Name of the file: kernel, machine, and digest of the code."""
        return f"{self._stem}{hashlib.sha256(self.parts).hexdigest()[:24]}.kernel"

    def find(self) -> Path | None:
        """Return the file, or None if there is none yet."""
        if self._path is None:
            self._path = next((path for folder in _folders() if _is_trusted(path := folder / self.name)), None)
        return self._path

    @contextmanager
    def claimed(self, *, waits: bool) -> Iterator[None]:
        """Lock the kernel for compiling; if another process has locked it, wait or raise `BlockingIOError`."""
        writable_folder().mkdir(parents=True, exist_ok=True)
        with open(writable_folder() / "compiling.lock", "ab") as file:
            place = int(hashlib.sha256(self.name.encode()).hexdigest()[:7], 16)
            fcntl.lockf(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB), 1, place)
            yield

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel, or None if its file is missing or damaged."""
        path = self.find()
        if path is None:
            announce()
            return None
        # Machine code needs only numba's runtime. numba's own cache refreshes the target instead, which imports its
        # implementation of all of numpy, and scipy.
        rtsys.initialize(target_context)
        try:
            data = path.read_bytes()
            if hashlib.sha256(data[DIGEST_BYTES:]).digest() == data[:DIGEST_BYTES]:
                return CompileResult._rebuild(target_context, *_Unpickler(BytesIO(data[DIGEST_BYTES:])).load())
        except (OSError, *UNREADABLE):
            pass
        self._path = None
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled kernel, and remove files of its earlier versions."""
        (name, kind, (machine_code, _)), *rest = data._reduce()
        content = dumps(((name, kind, (machine_code, _names(data.library._final_module))), *rest))
        folder = writable_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / self.name
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(hashlib.sha256(content).digest() + content)
            os.replace(part, path)
            for other in folder.glob(f"{self._stem}*.kernel"):
                if other != path:
                    other.unlink(missing_ok=True)
        except OSError as error:
            _remark(f"allocopt: compiled kernels cannot be stored in {folder}: {error.strerror}")

    def enable(self) -> None:
        """Do nothing; the method is only part of numba's interface."""

    disable = flush = enable


class _Unpickler(pickle.Unpickler):
    """Unpickler of compiled kernels that does not import the modules of numba from which parts of them come.

    These modules, which import scipy, are needed only for global names, and machine code does not look these up.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of a name in the file."""
        found = super().find_class(module, name)
        return _environment if found is _rebuild_env else found


def _names(module: ModuleRef) -> bytes:
    """Return the bitcode of empty functions with the names that a module defines.

    Loading needs only the names. The functions themselves, four fifths of a file, would be needed only to make the
    kernel a part of others.
    """
    values = (*module.functions, *module.global_variables)
    empty = [f'define void @"{value.name}"() {{ ret void }}\n' for value in values if not value.is_declaration]
    return cast(bytes, parse_assembly("".join(empty)).as_bitcode())


def _environment(module: str, constants: list[Any], name: str) -> Any:
    if not module.startswith("numba."):
        return _rebuild_env(module, constants, name)
    made = lookup_environment(name)
    if made is None:
        made = Environment({"__name__": module})
        made.consts[:], made.env_name = constants, name
        Environment._memo[name] = made
    return made


class _Parts:
    """Everything that the machine code of a kernel depends on: bytecode, and the values of the names in it.

    Questions may have answers for classes of other modules. Only answers for named tuples that the kernel takes or
    makes count, so that the digest does not depend on which modules are imported.
    """

    def __init__(self, signature: Any) -> None:
        arguments, _ = sigutils.normalize_signature(signature)
        self._records = {one.instance_class for one in arguments if isinstance(one, types.BaseNamedTuple)}  # type: ignore[attr-defined]
        self._questions: dict[str, Any] = {}
        self._seen: set[int] = set()

    def of(self, function: Callable[..., Any]) -> Iterator[bytes]:
        """Yield the parts of a kernel as bytes."""
        yield from self._walk(function)
        answered: set[tuple[str, str]] = set()
        while coming := {key: answer for key, answer in self._answers().items() if key not in answered}:
            for key in sorted(coming):
                answered.add(key)
                yield repr((key, _told(coming[key].targetoptions))).encode()
                yield from self._walk(coming[key].py_func)

    def _answers(self) -> dict[tuple[str, str], Any]:
        return {
            (name, record.__qualname__): answer
            for name, question in self._questions.items()
            for record, answer in question.answers.items()
            if record in self._records
        }

    def _walk(self, function: Callable[..., Any]) -> Iterator[bytes]:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        codes = [function.__code__]
        names: set[str] = set()
        while codes:
            code = codes.pop()
            names.update(code.co_names)
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
            yield code.co_code
            yield repr([constant for constant in code.co_consts if not isinstance(constant, CodeType)]).encode()
            yield repr((code.co_names, code.co_varnames, function.__defaults__)).encode()
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        bound = dict(zip(function.__code__.co_freevars, cells, strict=True))
        for name in sorted(names | set(bound)):
            yield from self._value(bound.get(name, function.__globals__.get(name)))

    def _value(self, value: Any) -> Iterator[bytes]:
        if hasattr(value, "answers"):
            self._questions[value.__name__] = value
        elif isinstance(value, Dispatcher):
            yield repr(_told(value.targetoptions)).encode()
            yield from self._walk(value.py_func)
        elif isinstance(value, np.ndarray):
            yield value.dtype.str.encode() + value.tobytes()
        elif isinstance(value, type | ModuleType) or callable(value):
            if isinstance(value, type):
                self._records.add(value)
            yield repr((getattr(value, "__name__", ""), getattr(value, "_fields", ()))).encode()
        else:
            yield repr(value).encode()


def _told(options: dict[str, Any]) -> list[tuple[str, Any]]:
    # Sorted, because the order of a set differs between processes.
    return sorted((name, sorted(value) if isinstance(value, set) else value) for name, value in options.items())


@cache
def _machine() -> str:
    parts = cpu_target.target_context.codegen().magic_tuple(), numba.__version__, np.__version__, sys.version
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def _folders() -> Iterator[Path]:
    if given := os.environ.get(VARIABLE):
        yield Path(given)
    yield _installed()
    if (cache := cache_folder()) is not None:
        yield cache


def _installed() -> Path:
    return Path(__file__).resolve().parent / "__pycache__"


def _is_trusted(path: Path) -> bool:
    """Return whether a file exists and belongs to this user, root or the installation, since its code is run."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return path.parent == _installed() or owner in (0, os.geteuid())


def _is_writable(folder: Path) -> bool:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


@cache
def writable_folder() -> Path:
    """Return the first folder in which new kernels can be stored, or a temporary one if there is none.

    The temporary folder is new and private, because code in it is run. It is removed at the end of the process.
    """
    for folder in _folders():
        if _is_writable(folder):
            return folder
        if str(folder) == os.environ.get(VARIABLE):
            _remark(f"allocopt: compiled kernels cannot be stored in {folder} ({VARIABLE}): it is not writable")
    private = tempfile.mkdtemp(prefix="allocopt-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    os.environ[VARIABLE] = private
    return Path(private)


def announce() -> None:
    """Log once per process that kernels are being compiled."""
    _remark("allocopt: compiling kernels, once on this machine ...")


@cache
def _remark(text: str) -> None:
    logger.warning(text)
