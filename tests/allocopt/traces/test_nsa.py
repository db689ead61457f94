from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload
from allocopt.traces.records import NO_RUN_TIME


def test_columns_are_id_arrival_run_nodes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("1  25  1386  10\n2  39  450  4\n3 40 0 1\n")
    made = read_workload(path)
    assert made.name == "jobs"
    assert made.submit.tolist() == [25.0, 39.0]
    assert made.run.tolist() == made.estimate.tolist() == [1386.0, 450.0]
    assert made.processors.tolist() == [10, 4]
    assert made.dropped == ((NO_RUN_TIME, 1),)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1 25 1386 10\n2 39 450\n", "line 2: has 3 columns, must have 4"),
        ("1 25 1386 10\n2 39 450 4 5\n", "line 2: has 5 columns, must have 4"),
        ("1 2 3 4 5\n", "line 1: has 5 columns, must have 4"),
        ("1 25 1386 ten\n", r"line 1: column 4 \(nodes\) is 'ten'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(BadFileError, match=rf"jobs.txt: {place}"):
        read_workload(path)


def test_a_file_of_no_known_ending_is_said_to_be_taken_for_this_format(tmp_path: Path) -> None:
    path = tmp_path / "README"
    path.write_text("# A title\n")
    fault = "README: line 1: has 3 columns, must have 4; it was taken for the NSA authors' text, for it does"
    with pytest.raises(BadFileError, match=fault):
        read_workload(path)


def test_the_authors_workload_is_the_one_the_paper_describes(shared_data: Path) -> None:
    made = read_workload(shared_data / "tjap" / "data_large_1800_40.txt.gz")
    assert len(made) == 100_000
    assert (made.processors.min(), made.processors.max()) == (1, 40)
    assert (made.run.min(), made.run.max()) == (10, 1800)
    assert made.remarks() == []
