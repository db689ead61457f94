"""Kernels that are loaded before a clock starts, or compiled by several processes at once where no file has them."""

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
    # numba, which takes a third of a second to import, is there where there is a kernel.
    from allocopt.kernels.compiled import Kernel

PACKAGES = ("allocopt", "formulations", "heuristics", "learned")
MAKES_ENTRY = re.compile(r"^(@|\w+ = \w+_)kernel\(", re.MULTILINE)
"""What modules with entries hold: a function that is one, or the result of a function that makes one."""
LOOK_S, TELL_S = 0.05, 5.0  # between two looks at what is compiled, and between two signs of life

logger = logging.getLogger("allocopt")
# Who compiles which kernel for this process: a solve that could not wait leaves its compilers to later ones.
_workers: dict[str, "subprocess.Popen[bytes]"] = {}


def make_ready(kernels: Iterable[Callable[..., Any]], seconds: float = math.inf) -> bool:
    """Load entries, compiling at first what no file has; return whether all are loaded.

    Compilers are waited for so many seconds, and go on when these are over.
    """
    wanted = unloaded(kernels)
    # One kernel alone is compiled soonest here, where numba is imported already.
    is_alone = len(wanted) == 1 and seconds == math.inf and wanted[0].word not in _workers
    if not is_alone and not _compiled(begin_compiling(wanted), seconds):
        return False
    for entry in wanted:
        entry.load()
    return True


def make_compiled(kernels: Iterable[Callable[..., Any]]) -> None:
    """Wait until all entries are compiled; those that are not needed at once need not be loaded."""
    _compiled(begin_compiling(kernels), math.inf)


def unloaded(kernels: Iterable[Callable[..., Any]]) -> "list[Kernel]":
    """Return the kernels that are not loaded yet."""
    return [entry for entry in cast("Iterable[Kernel]", kernels) if not entry.is_loaded]


def begin_compiling(kernels: Iterable[Callable[..., Any]]) -> "list[Kernel]":
    """Let other processes compile what no file has; return those kernels."""
    missing = [entry for entry in unloaded(kernels) if entry.store.find() is None]
    if words := sorted(entry.word for entry in missing if entry.word not in _workers):
        _start_workers(words)
    return missing


def load_stored(kernels: Iterable[Callable[..., Any]]) -> None:
    """Load the kernels that files have, before the clock of a solve starts."""
    for entry in unloaded(kernels):
        if entry.store.find() is not None:
            entry.load()


def all_kernels() -> "list[Kernel]":
    """Return every entry of the package."""
    from allocopt.kernels.compiled import Kernel

    found = []
    for package in PACKAGES:
        root = Path(cast(str, cast(Any, find_spec(package)).origin)).parent
        for path in sorted(root.rglob("*.py")):
            if MAKES_ENTRY.search(path.read_text(encoding="utf-8")):
                try:
                    module = import_module(".".join((package, *path.relative_to(root).with_suffix("").parts)))
                except ModuleNotFoundError as error:
                    # Kernels of trainings need what a plain installation has not, torch.
                    if error.name is None or error.name.partition(".")[0] in PACKAGES:
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
                logger.warning("allocopt: the time is up before all kernels are compiled; run allocopt warmup once")
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
    # As many processes as there are processors, each compiles the next that nobody works on.
    from allocopt.kernels.store import VARIABLE, announce, writable_folder

    announce()
    if not sys.executable:
        return
    environment = child_environment(**{VARIABLE: str(writable_folder())})
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_workers = min(processors, len(words))
    for number in range(n_workers):
        # Neighbours share helpers, which a process compiles once: two workers each begin at the ends of one stretch.
        goes_back = number % 2
        first = (number + goes_back) * len(words) // n_workers
        order = words[first:] + words[:first]
        worker = subprocess.Popen(
            module_command(__name__, *(reversed(order) if goes_back else order)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is this process's to answer, and who comes next is glad of what was begun.
            start_new_session=True,
        )
        _workers.update((word, worker) for word in words)


def _work(words: list[str]) -> None:
    logger.setLevel(logging.ERROR)
    # A sixth of the time would go into looking for garbage among what the compiler still needs.
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
