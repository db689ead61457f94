from pathlib import Path

import pytest
from support.workloads import jobs_of, workload

from allocopt.errors import UsageError
from allocopt.traces.reading import read_workload
from allocopt.traces.writing import write_workload


@pytest.mark.parametrize("ending", [".swf", ".json", ".txt"])
@pytest.mark.parametrize("compressed", ["", ".gz"])
def test_the_ending_picks_the_format(tmp_path: Path, ending: str, compressed: str) -> None:
    made = workload([(1, 0.0, 5.0, 3, 5.0), (2, 1.5, 7.25, 1, 7.25)], machine=4)
    path = tmp_path / f"jobs{ending}{compressed}"
    write_workload(path, made)
    again = read_workload(path)
    assert (again.name, jobs_of(again)) == ("jobs", jobs_of(made))
    assert (path.read_bytes()[:2] == b"\x1f\x8b") is bool(compressed)


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.swf.gz.gz", "a.swf.zip"])
def test_an_ending_without_a_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: the name must end in \.swf, \.json, \.txt, or one of these and"):
        write_workload(tmp_path / name, workload([(1, 0.0, 5.0, 3, 5.0)]))
    assert not list(tmp_path.iterdir())
