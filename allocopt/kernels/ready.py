"""Loading of kernels before a clock starts, and compiling of missing ones by several processes in parallel."""

import gc
import logging
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from allocopt.child_process import child_environment, module_command

if TYPE_CHECKING:
    # Importing numba takes a third of a second; callers with kernels have already imported it.
    from allocopt.kernels.compiled import Kernel

MAKES_ENTRY = re.compile(r"^(@|\w+ = \w+_)kernel\(", re.MULTILINE)
"""Pattern of modules with entries: a decorated function, or the result of a function that makes an entry."""
LOOK_S, TELL_S = 0.05, 5.0  # intervals of checking what is compiled, and of logging progress

logger = logging.getLogger("allocopt")
# Process that compiles each kernel. If a solve cannot wait, its compilers continue, and later solves use the results.
_workers: dict[str, "subprocess.Popen[bytes]"] = {}


def make_ready(kernels: Iterable[Callable[..., Any]], seconds: float = math.inf) -> bool:
    """Load entries, after compiling those that are not stored; return whether all are loaded.

    It waits for at most ``seconds``. Compilers that are not done by then continue in the background.
    """
    wanted = unloaded(kernels)
    # A single kernel is compiled fastest in this process, which has already imported numba.
    is_alone = len(wanted) == 1 and seconds == math.inf and wanted[0].word not in _workers
    if not is_alone and not _compiled(begin_compiling(wanted), seconds):
        return False
    for entry in wanted:
        entry.load()
    return True


def make_compiled(kernels: Iterable[Callable[..., Any]]) -> None:
    """Wait until all entries are compiled and stored, without loading them."""
    _compiled(begin_compiling(kernels), math.inf)


def unloaded(kernels: Iterable[Callable[..., Any]]) -> "list[Kernel]":
    """Return the kernels that are not loaded."""
    return [entry for entry in cast("Iterable[Kernel]", kernels) if not entry.is_loaded]


def begin_compiling(kernels: Iterable[Callable[..., Any]]) -> "list[Kernel]":
    """Start other processes that compile the kernels that are not stored; return these kernels."""
    missing = [entry for entry in unloaded(kernels) if entry.store.find() is None]
    if words := sorted(entry.word for entry in missing if entry.word not in _workers):
        _start_workers(words)
    return missing


def load_stored(kernels: Iterable[Callable[..., Any]]) -> None:
    """Load the stored kernels among these, before the clock of a solve starts."""
    for entry in unloaded(kernels):
        if entry.store.find() is not None:
            entry.load()


def all_kernels() -> "list[Kernel]":
    """Return all entries of the shipped packages."""
    from allocopt.kernels.compiled import Kernel

    found = []
    root = Path(cast(str, cast(Any, find_spec("allocopt")).origin)).parent
    # In a checkout, some folders of the package are links.
    files = (Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names)
    for path in sorted(file for file in files if file.suffix == ".py"):
        if MAKES_ENTRY.search(path.read_text(encoding="utf-8")):
            try:
                module = import_module(".".join(("allocopt", *path.relative_to(root).with_suffix("").parts)))
            except ModuleNotFoundError as error:
                # Kernels of trainings need torch, which may not be installed.
                if error.name is None or error.name.partition(".")[0] == "allocopt":
                    raise
                continue
            made = (value for value in vars(module).values() if isinstance(value, Kernel))
            found += [entry for entry in made if entry.__module__ == module.__name__]
    return found


def _compiled(missing: "list[Kernel]", seconds: float) -> bool:
    started = told = time.perf_counter()
    told_left = 0
    try:
        while any(_workers[entry.word].poll() is None for entry in missing if entry.word in _workers):
            left = sum(entry.store.find() is None for entry in missing)
            if left == 0:
                break
            now = time.perf_counter()
            if now - started > seconds:
                logger.warning("allocopt: the time limit ended before all kernels were compiled; run allocopt warmup")
                return False
            if now - told > TELL_S and left != told_left:
                told, told_left = now, left
                logger.warning("allocopt: %d of %d kernels are compiled", len(missing) - left, len(missing))
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        for worker in _workers.values():
            worker.terminate()
        raise
    return True


def _start_workers(words: list[str]) -> None:
    # One process per processor; each compiles the next kernel that no other process has claimed.
    from allocopt.kernels.store import VARIABLE, announce, writable_folder

    announce()
    if not sys.executable:
        return
    environment = child_environment(**{VARIABLE: str(writable_folder())})
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_workers = min(processors, len(words))
    for number in range(n_workers):
        # Adjacent kernels share helpers, which a process compiles only once. So workers begin in pairs at the two ends
        # of a range and move towards each other.
        goes_back = number % 2
        first = (number + goes_back) * len(words) // n_workers
        order = words[first:] + words[:first]
        worker = subprocess.Popen(
            module_command(__name__, *(reversed(order) if goes_back else order)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # In their own session, workers do not get Ctrl-C; this process terminates them then. If it ends otherwise,
            # they go on, and later processes use what they compile.
            start_new_session=True,
        )
        _workers.update((word, worker) for word in words)


def _work(words: list[str]) -> None:
    logger.setLevel(logging.ERROR)
    # Garbage collection would take a sixth of the time, because the compiler keeps many objects.
    gc.disable()
    entries = []
    for word in words:
        module, name = word.split(":")
        entries.append(cast("Kernel", getattr(import_module(module), name)))
    for waits in (False, True):
        for entry in entries:
            with suppress(BlockingIOError), entry.store.claimed(waits=waits):
                if entry.store.find() is None:
                    entry.load()
                    gc.collect()
                    gc.freeze()


if __name__ == "__main__":
    _work(sys.argv[1:])
