"""What fits a terminal."""

from collections.abc import Callable
from typing import Any

import pytest

from allocopt.cli.terminal import listed, screen_width

Run = Callable[..., Any]
Variables = pytest.MonkeyPatch


def test_lines_may_be_as_long_as_they_like_where_there_is_no_terminal(
    monkeypatch: Variables, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert screen_width() is None
    print(listed({"a": "word " * 40}))
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_long_text_goes_on_below_itself(monkeypatch: Variables) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert listed({"a": "one two three", "longer": "four five six seven eight", "none": ""}, "  ").splitlines() == [
        "  a       one two three",
        "  longer  four five six seven",
        "          eight",
        "  none",
    ]


def test_where_names_take_the_screen_a_text_goes_on_near_the_margin(monkeypatch: Variables) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    assert listed({"a-long-name": "one two three four five"}).splitlines() == [
        "a-long-name  one two",
        "    three four five",
    ]


@pytest.mark.parametrize("command", ["solvers", "reproduce", "fetch-trace"])
def test_listings_fit_a_narrow_terminal(run: Run, monkeypatch: Variables, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = run(command)
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
