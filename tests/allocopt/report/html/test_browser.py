"""The page of results, and that of a live service, in a real browser."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.live import a_journal, window
from support.timelines import timeline

from allocopt.live.journal import FORMAT, Journal
from allocopt.live.page import LivePage, PageServer
from allocopt.live.view import Follower
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.page import write_report
from allocopt.report.html.sections.schedules import _timelines_section
from allocopt.report.html.timeline import Timeline

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
WAIT_S = 60.0
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
TABLE = Table(
    "Numbers",
    (Column("name"), Column("number", 1), *(Column(f"a column that takes its place {n}", 0) for n in range(9))),
    tuple((name, number, *range(9)) for name, number in (("n10", 2.0), ("n9", None), ("n1", -30.0), ("n2", 11.0))),
)


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


@contextmanager
def seen(browser: Any, width: int, mode: str, media: str = "") -> Iterator[None]:
    """Let the browser be that wide, in a mode of colours, as a medium."""
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": mode}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def requests(browser: Any, page: str) -> set[str]:
    """Addresses that a page asked for; the browser's own first tab may be loading at the same time."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [each["params"] for each in events if each["method"] == "Network.requestWillBeSent"]
    return {each["request"]["url"] for each in sent if each["documentURL"] == page}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with figures and a wide table; a name in it would run a script if it could."""
    line = timeline(40)
    names = ["<script>document.title = 'hacked'</script>", *line.names[1:]]
    hostile = Timeline(names, line.submit, line.start, line.end, line.processors, line.size)
    others = {"a schedule with quite a long name": hostile, "another": timeline(40, seed=1)}
    rows = tuple((name, float(len(name))) for name in names)
    jobs = Table("Jobs", (Column("job"), Column("characters", 0)), rows)
    sections = [Section("Tables", parts=(TABLE, jobs)), _timelines_section(others)]
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_report(path, "A page", sections)
    return path


def value(browser: Any, expression: str, *arguments: object) -> Any:
    """Return the value of an expression of JavaScript."""
    return browser.execute_script(f"return {expression}", *arguments)


def column(browser: Any, number: int) -> Any:
    """Texts of a column of the first table."""
    rows = "[...document.querySelector('table').tBodies[0].rows]"
    return value(browser, f"{rows}.map(r => r.cells[arguments[0]].innerText)", number)


def style(browser: Any, selector: str, name: str) -> Any:
    """Return the computed style of the first element."""
    return value(browser, "getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)


def test_the_page_opens_from_a_file_without_an_error_or_a_request(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    assert browser.title == "A page"
    assert browser.get_log("browser") == []
    asked = requests(browser, page.as_uri())
    assert page.as_uri() in asked
    assert all(url.startswith(("file://", "data:")) for url in asked)
    assert value(browser, "document.querySelectorAll('figure .scroll > svg').length") == 6


def test_titles_of_columns_sort_the_table(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    name, number = browser.find_elements("css selector", "table th button")[:2]
    number.click()
    assert column(browser, 1) == ["\u221230.0", "2.0", "11.0", "\u2013"]
    number.click()
    assert column(browser, 1) == ["11.0", "2.0", "\u221230.0", "\u2013"]
    sorts = "[...document.querySelectorAll('table:first-of-type th')].slice(0, 2).map(h => h.ariaSort)"
    assert value(browser, sorts) == [None, "descending"]
    browser.execute_script("arguments[0].focus()", name)
    name.send_keys("\ue007")
    assert column(browser, 0) == ["n1", "n2", "n9", "n10"]
    assert value(browser, sorts) == ["ascending", None]


def test_light_and_dark_differ_on_the_page_and_in_figures(browser: Any, page: Path) -> None:
    found = {}
    for mode in ("light", "dark"):
        with seen(browser, 1_000, mode):
            browser.get(page.as_uri())
            found[mode] = style(browser, "body", "backgroundColor"), style(browser, ".plot text", "fill")
    assert found["light"][0] == "rgb(255, 255, 255)"
    assert all(one != other for one, other in zip(found["light"], found["dark"], strict=True))


@pytest.mark.parametrize("width", [320, 375, 640, 641, 1_400])
def test_only_boxes_that_say_so_scroll_sideways(browser: Any, page: Path, width: int) -> None:
    with seen(browser, width, "light"):
        browser.get(page.as_uri())
        assert value(browser, "document.documentElement.scrollWidth") <= width
        assert value(browser, "document.body.scrollWidth") <= width
        box = browser.find_element("css selector", ".scroll")
        hides = value(browser, "arguments[0].scrollWidth > arguments[0].clientWidth", box)
        assert hides is (width < 1_400)
        assert value(browser, "document.querySelector('.table .hint').hidden") is not hides


def test_a_printed_page_is_light_and_has_no_box_that_scrolls(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    with seen(browser, 1_000, "dark", "print"):
        assert style(browser, "body", "backgroundColor") == "rgb(255, 255, 255)"
        assert style(browser, ".scroll", "overflow") == "visible"


def test_a_series_is_toggled_by_its_name_in_the_legend(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    button = browser.find_element("css selector", ".legend button")
    lines = "[...document.querySelector('.plot').querySelectorAll('.mark-line')].map(l => l.getClientRects().length)"
    assert value(browser, lines) == [1, 1, 1, 1]
    browser.execute_script("arguments[0].click()", button)
    assert value(browser, lines) == [0, 1, 0, 1]
    assert button.get_attribute("aria-pressed") == "false"


def test_values_are_shown_where_a_reader_points(browser: Any, page: Path) -> None:
    chains = import_module("selenium.webdriver").ActionChains
    browser.get(page.as_uri())
    for selector, begins in ((".over [aria-label^='job j1:']", "job j1: "), (".mark-line path", "a schedule with")):
        element = browser.find_element("css selector", selector)
        browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        place = value(browser, "arguments[0].getBoundingClientRect().toJSON()", element)
        x, y = round(place["right"] - 1), round(place["top"] + 1)
        actions = chains(browser)
        actions.w3c_actions.pointer_action.move_to_location(x, y)
        actions.perform()
        assert browser.find_element("id", "value").text.startswith(begins)


def test_the_wheel_with_control_zooms_and_a_double_click_goes_back(browser: Any, page: Path) -> None:
    browser.get(page.as_uri())
    seen_part = "document.querySelector('.scroll > svg').viewBox.baseVal.width"
    whole = value(browser, seen_part)
    dispatch = "document.querySelector('.scroll > svg').dispatchEvent(new "
    wheel = dispatch + "WheelEvent('wheel', {ctrlKey: arguments[0], deltaY: -200, bubbles: true, cancelable: true}))"
    browser.execute_script(wheel, False)
    assert value(browser, seen_part) == whole
    browser.execute_script(wheel, True)
    assert value(browser, seen_part) < whole
    browser.execute_script(dispatch + "MouseEvent('dblclick', {bubbles: true}))")
    assert value(browser, seen_part) == whole


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
    while not value(browser, script):
        assert time.monotonic() < end, script
        time.sleep(0.2)


def test_a_live_page_renews_itself_keeps_what_its_reader_chose_and_asks_nobody_else(
    browser: Any, address: str, journal: Path
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
    assert value(browser, f"{table}.tBodies[0].rows[0].cells[0].innerText") == "77"
    assert value(browser, f"{table}.querySelector('th').ariaSort") == "descending"
    assert browser.title == "Cluster virtual, live"
    assert value(browser, "document.images.length") == 0
    assert browser.get_log("browser") == []
    assert {url for url in requests(browser, address) if not url.startswith("data:")} == {address}


def test_what_comes_and_goes_is_shown_and_a_server_that_is_gone_is_told(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", time.time(), format=FORMAT, mode="advise", solver="auto")
        with served(path) as address:
            browser.get(address)
            assert value(browser, "document.querySelectorAll('nav a').length") == 2
            journal.write("window", time.time(), **window(["1"]))
            until(browser, "document.querySelectorAll('nav a').length === 4")
            assert value(browser, "document.querySelectorAll('figure .hint').length") == 3
    until(browser, "document.querySelector('header p').textContent.startsWith('This page is no longer updated')")
    # That it cannot be reached is the browser's own error.
    browser.get_log("browser")


@pytest.mark.parametrize("width", [320, 390, 1_400])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_on_a_live_page_nothing_but_boxes_that_say_so_scrolls_sideways(
    browser: Any, address: str, width: int, mode: str
) -> None:
    # Leave the page of the test before, which may still ask its own server, and forget its errors.
    browser.get("about:blank")
    browser.get_log("browser")
    with seen(browser, width, mode):
        browser.get(address)
        assert value(browser, "document.documentElement.scrollWidth") <= width
        background = value(browser, "getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is (mode == "light")
        assert browser.get_log("browser") == []
