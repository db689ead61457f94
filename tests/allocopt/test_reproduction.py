"""Reproductions of other packages stand beside those of the papers, and do not take their names."""

from pathlib import Path

import pytest
from support.sweeps import plug_in

from allocopt.errors import PluginWarning, UsageError
from allocopt.reproduction import get_reproduction, reproduction_names

PART = """
from dataclasses import dataclass

@dataclass
class Part:
    size: int = 1
    name = title = "{name}"
    pieces = measure = rows = None
"""


def test_another_package_brings_reproductions_and_takes_no_name_of_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "another.py").write_text(PART)
    names = ("mine", "nsa-table3")
    plug_in(tmp_path, "allocopt.reproductions", **dict.fromkeys(names, "another:Part"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {*names, "dras-figure7"} <= {*reproduction_names()}
    assert vars(get_reproduction("mine", {"size": 3})) == {"size": 3}
    with pytest.warns(PluginWarning, match="'nsa-table3' is that of the papers"):
        assert get_reproduction("nsa-table3").title.startswith("Table III of the NSA paper")
    with pytest.raises(UsageError, match=r"no reproduction 'min'; did you mean 'mine'\? Installed: .*dras-figure7"):
        get_reproduction("min")
