"""The local page of a live service in a real browser."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.live import a_journal, window

from allocopt.live.journal import FORMAT, Journal
from allocopt.live.page import LivePage, PageServer
from allocopt.live.view import Follower

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
WAIT_S = 60.0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return a_journal(tmp_path / "j.jsonl", time.time() - 60)


@contextmanager
def served(journal: Path) -> Iterator[str]:
    """Serve the page of a journal; return its address."""
    with PageServer(LivePage(Follower(journal)), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def address(journal: Path) -> Iterator[str]:
    with served(journal) as address:
        yield address


def until(browser: Any, script: str) -> None:
    """Wait until a script returns what is true."""
    end = time.monotonic() + WAIT_S
    while not browser.execute_script(f"return {script}"):
        assert time.monotonic() < end, script
        time.sleep(0.2)


def test_the_page_renews_itself_keeps_what_its_reader_chose_and_asks_nobody_else(
    browser: Any, requests: Callable[[str], set[str]], address: str, journal: Path
) -> None:
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(address)
    table = "document.querySelector('table')"
    for _ in range(2):
        browser.execute_script(f"{table}.querySelector('th button').click()")
    waits = {"state": "waiting", "name": "new", "user": "ann", "partition": "main", "size": 1}
    with Journal(journal) as written:
        written.write("look", time.time(), looks=4, jobs={"77": waits})
    until(browser, f"{table}.tBodies[0].rows.length === 3")
    assert browser.execute_script(f"return {table}.tBodies[0].rows[0].cells[0].innerText") == "77"
    assert browser.execute_script(f"return {table}.querySelector('th').ariaSort") == "descending"
    assert browser.title == "Cluster virtual, live"
    assert browser.execute_script("return document.images.length") == 0
    assert browser.get_log("browser") == []
    assert {url for url in requests(address) if not url.startswith("data:")} == {address}


def test_what_comes_and_goes_is_shown_and_a_server_that_is_gone_is_told(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", time.time(), format=FORMAT, mode="advise", solver="auto")
        with served(path) as address:
            browser.get(address)
            assert browser.execute_script("return document.querySelectorAll('nav a').length") == 2
            journal.write("window", time.time(), **window(["1"]))
            until(browser, "document.querySelectorAll('nav a').length === 4")
            assert browser.execute_script("return document.querySelectorAll('figure .hint').length") == 3
    until(browser, "document.querySelector('header p').textContent.startsWith('This page is no longer renewed')")
    # That it cannot be reached is the browser's own error.
    browser.get_log("browser")


@pytest.mark.parametrize("width", [320, 390, 1_400])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_nothing_but_boxes_that_say_so_scrolls_sideways(
    browser: Any, seen: Callable[..., AbstractContextManager[None]], address: str, width: int, mode: str
) -> None:
    with seen(width, mode):
        browser.get(address)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is (mode == "light")
        assert browser.get_log("browser") == []
