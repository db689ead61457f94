"""The local page of a service and its metrics: for this machine alone, and whatever users write stays text."""

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.live import HOSTILE, NOW, a_journal

from allocopt.errors import MissingPackageError
from allocopt.live import page as module
from allocopt.live.journal import FORMAT, Journal
from allocopt.live.page import METRICS_TYPE, LivePage, PageServer, metrics_text
from allocopt.live.view import Follower


@contextmanager
def served(journal: Path) -> Iterator[int]:
    with PageServer(LivePage(Follower(journal)), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()


def asked(port: int, path: str, method: str = "GET", host: str | None = None) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_texts_of_users_stay_texts_and_no_script_runs_but_ours(tmp_path: Path) -> None:
    with served(a_journal(tmp_path / "j.jsonl")) as port:
        answer, text = asked(port, "/")
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert "<img" not in text
    assert "&lt;/script&gt;&lt;img" in text
    assert text.count("</script>") == text.count("<script>") == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy[1]
    assert "connect-src 'self'; " in policy[1]
    assert answer.getheader("Content-Security-Policy") == "frame-ancestors 'none'"
    for words in ("Queue", "Running", "Last window", "Over time", "1 drained", "asks for licenses &lt;i&gt;", "leaf1"):
        assert words in text
    assert set(re.findall(r"https?://[^/\"]*", text)) <= {"http://www.w3.org"}


def test_only_reading_is_answered_and_only_to_this_machine(tmp_path: Path) -> None:
    with served(a_journal(tmp_path / "j.jsonl")) as port:
        assert asked(port, "/", host=f"evil.example:{port}")[0].status == 403
        assert asked(port, "/metrics", host=f"localhost:{port}")[0].status == 200
        assert asked(port, "/", "POST")[0].status == 501
        assert asked(port, "/../etc/passwd")[0].status == 404
        answer, text = asked(port, "/metrics", "HEAD")
        assert (answer.status, text) == (200, "")


def test_metrics_are_openmetrics_with_what_the_journal_tells(tmp_path: Path) -> None:
    with served(a_journal(tmp_path / "j.jsonl")) as port:
        answer, text = asked(port, "/metrics")
    assert answer.getheader("Content-Type") == METRICS_TYPE
    assert text.endswith("\n# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (sample.name.removeprefix("allocopt_live_"), sample.labels.get("state")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    for name, value in (
        ("looks_total", 3), ("windows_total", 1), ("windows_proved_total", 1), ("jobs_pinned_total", 1),
        ("jobs_as_pinned_total", 1), ("jobs_unpinned_total", 0), ("refused_total", 1), ("hop_cost_total", 100),
        ("plan_seconds_total", 0.002), ("solve_seconds_total", 0.003), ("window_gap_ratio", 0), ("nodes", 8), ("up", 0),
        ("queue_length", 2),
    ):  # fmt: skip
        assert values[name, None] == value
    assert values["regret_ratio", None] == pytest.approx(0.2)
    assert values["jobs", "waiting"] == values["jobs", "pinned"] == 1
    assert values["nodes_away", "drained"] == 1
    assert all(family.documentation for family in families.values())
    assert families["allocopt_live_solve_seconds"].unit == "seconds"


def test_labels_hold_whatever_a_name_does(tmp_path: Path) -> None:
    view = Follower(a_journal(tmp_path / "j.jsonl")).view
    view.about["cluster"] = 'a"b\\c\nd'
    families = list(text_string_to_metric_families(metrics_text(view, NOW)))
    assert families[0].samples[0].labels["cluster"] == 'a"b\\c\nd'


def test_a_service_that_has_only_begun_has_a_page_and_metrics(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", NOW, format=FORMAT, mode="observe", solver="auto")
    page = LivePage(Follower(path))
    assert "A cluster, live" in page.html()
    assert list(text_string_to_metric_families(page.metrics()))


def test_without_the_packages_of_figures_there_are_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise MissingPackageError("figures need Jinja")

    monkeypatch.setattr(module, "page_text", missing)
    with served(a_journal(tmp_path / "j.jsonl")) as port:
        assert asked(port, "/metrics")[0].status == 200
        answer, text = asked(port, "/")
        assert (answer.status, text) == (503, "figures need Jinja\n")


def test_a_job_keeps_its_colour_while_others_come_and_go(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    page = LivePage(Follower(path))
    page.html()
    before = dict(page._colours)
    assert before.keys() == {"1", "2"}
    new = {"state": "running", "name": HOSTILE, "size": 1, "on": "n3", "start_s": NOW + 9}
    with Journal(path) as journal:
        journal.write("look", NOW + 9, looks=4, jobs={"0": new})
    page._made_s = 0.0
    page.html()
    assert page._colours.keys() == {"0", "1", "2"}
    assert before.items() <= page._colours.items()
