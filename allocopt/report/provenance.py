"""Provenance of results: versions, commit and machine."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from allocopt.version import __version__

PACKAGES = ("numpy", "numba", "scipy", "ortools", "pyscipopt", "networkx", "simanneal", "pydantic", "typer")
# Folders of the checkout that hold the program.
_CODE = ("allocopt", "formulations", "heuristics", "learned", "papers")


def provenance() -> dict[str, str]:
    """Return ``version``, ``commit``, ``python`` and ``machine`` of this process; machine is processor and cores."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        processor = next(models, processor)
    machine = f"{processor}, {os.cpu_count()} cores"
    return {"version": __version__, "commit": _commit(), "python": platform.python_version(), "machine": machine}


def _commit() -> str:
    """Return the commit of the checkout that the package runs from, with ``+`` if the code differs, or "unknown"."""
    root = Path(__file__).resolve().parents[2]
    hashed = _git(root, "rev-parse", "--short=12", "HEAD") if (root / ".git").exists() else ""
    if not hashed:
        return "unknown"
    # Changes elsewhere, such as a result page that is being written, do not affect measurements.
    changed = _git(root, "status", "--porcelain", "--", *_CODE)
    return f"{hashed}+" if changed else hashed


def package_versions() -> dict[str, str]:
    """Return the version of every package that the solvers depend on; "not installed" if one is missing."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, encoding="utf-8", errors="replace", timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
