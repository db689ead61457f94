"""Schedules and a browser for the tests of reports."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.report.html.timeline import Timeline

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window; skipped where it is absent, but not in continuous integration."""
    try:
        webdriver = import_module("selenium.webdriver")
    except ModuleNotFoundError:
        webdriver = None
    if BROWSER is None or DRIVER is None or webdriver is None:
        message = "needs chromium, chromedriver and selenium"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def seen(browser: Any) -> Callable[..., AbstractContextManager[None]]:
    """Let the browser be that wide, in a mode of colours, as a medium."""

    @contextmanager
    def seen(width: int, mode: str, media: str = "") -> Iterator[None]:
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        features = [{"name": "prefers-color-scheme", "value": mode}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        try:
            yield
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})

    return seen


@pytest.fixture(scope="session")
def requests(browser: Any) -> Callable[[str], set[str]]:
    """Addresses that a page asked for; the browser's own first tab may be loading at the same time."""

    def requests(page: str) -> set[str]:
        events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        sent = [each["params"] for each in events if each["method"] == "Network.requestWillBeSent"]
        return {each["request"]["url"] for each in sent if each["documentURL"] == page}

    return requests


@pytest.fixture(scope="session")
def timeline() -> Callable[..., Timeline]:
    """Make a schedule of random jobs that fit the machine one after the other."""

    def make(jobs: int, size: int = 32, seed: int = 0) -> Timeline:
        random = np.random.default_rng(seed)
        submit = np.sort(random.integers(0, 60 * jobs, jobs)).astype(float)
        processors = random.integers(1, size // 2 + 1, jobs)
        run = random.integers(1, 4_000, jobs).astype(float)
        free = np.zeros(size)
        start = np.empty(jobs)
        for job in range(jobs):
            own = np.argsort(free, kind="stable")[: processors[job]]
            start[job] = max(submit[job], free[own].max())
            free[own] = start[job] + run[job]
        return Timeline([f"j{job}" for job in range(jobs)], submit, start, start + run, processors, size)

    return make


@pytest.fixture
def schedule_csv(tmp_path: Path) -> Callable[..., Path]:
    """Write a schedule as ``--jobs-csv`` does."""

    def write(line: Timeline, name: str = "schedule.csv") -> Path:
        rows = zip(line.names, line.submit, line.start, line.end, line.processors, strict=True)
        text = "job_id,submit,start,end,processors,run,estimate\n" + "".join(
            f"{job},{submit:.0f},{start:.0f},{end:.0f},{size},{end - start:.0f},{end - start:.0f}\n"
            for job, submit, start, end, size in rows
        )
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write
