"""Fixtures shared by all tests."""

import os
import signal
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.oracle import OracleWindow, read_oracle

IS_LIGHT = find_spec("ortools") is None
"""Whether only numpy, numba, pydantic and typer are installed: tests that need another package are skipped then."""

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Properties are tried on the same examples every time, with a seed on others, by `make unit` on few, and by `make fuzz`
# on new and more ones.
# Nothing depends on the clock: the first example of some compiles kernels, and machines are busy. Fixtures serve all
# examples of a test, which write the same files anew.
ALL = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("fixed", ALL, max_examples=25, database=None, derandomize=True)
settings.register_profile("unit", ALL, max_examples=5, database=None, derandomize=True)
settings.register_profile("seeded", ALL, max_examples=25, database=None, print_blob=True)
settings.register_profile("fuzz", ALL, max_examples=300, print_blob=True)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Let a seed choose the examples, and let Ctrl-C, which tests send, be heard also where a script ignores it.

    There is a process for every core, so that each gets one thread: more wait for each other most of the time.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--hypothesis-seed") is not None and config.getoption("--hypothesis-profile") is None:
        settings.load_profile("seeded")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces and proven optima beside the checkout; skipped where absent, but not in continuous integration."""
    if not SHARED_DATA.is_dir():
        message = f"needs the data folder {SHARED_DATA}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return SHARED_DATA


@pytest.fixture(scope="session")
def oracle_windows(shared_data: Path) -> list[OracleWindow]:
    """Windows of 2 to 8 jobs with proven optima."""
    return read_oracle(shared_data / "tjap" / "oracle_windows.json")


_MISSING = ("ModuleNotFoundError: No module named", "MissingPackageError: ")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, Any]:
    """Skip files that import a package that is not part of a light environment."""
    report = yield
    if IS_LIGHT and report.failed and any(fault in str(report.longrepr) for fault in _MISSING):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, "imports a package that is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, Any]:
    """Skip tests in which a solver or reader says that a package is missing in a light environment."""
    report = yield
    is_missing = call.excinfo is not None and isinstance(call.excinfo.value, ImportError)
    if IS_LIGHT and report.failed and is_missing and "light" not in item.keywords:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {call.excinfo.value}")
    return report
