"""The program, run in the process of the tests of traces."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from allocopt.cli.main import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Run the program in this process; return its exit code and what it says on standard error."""

    def run_here(*arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["allocopt", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run_here
