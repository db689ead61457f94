from pathlib import Path

import pytest
from hypothesis import given
from support.workloads import jobs_of, workload, workloads

from allocopt.traces.nsa import read_nsa
from allocopt.traces.nsa_writing import nsa_losses, write_nsa
from allocopt.traces.workload import Workload


@given(workloads())
def test_all_but_the_estimates_is_read_again_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, made: Workload
) -> None:
    path = tmp_path_factory.mktemp("nsa") / "a.txt"
    write_nsa(path, made)
    assert jobs_of(read_nsa(path)) == [(*job[:4], job[2]) for job in jobs_of(made)]


def test_the_text_looks_like_the_authors(shared_data: Path, tmp_path: Path) -> None:
    made = read_nsa(shared_data / "tjap" / "data_large_1800_40.txt.gz").first(2)
    write_nsa(tmp_path / "a.txt", made)
    assert (tmp_path / "a.txt").read_text() == "1  25  1386  10\n2  39  450  4\n"


def test_lost_estimates_and_machine_are_said() -> None:
    jobs = [(1, 0.0, 5.0, 1, 5.0), (2, 0.0, 5.0, 1, 6.0)]
    assert nsa_losses(workload(jobs, machine=9)) == [
        "estimates lost, the format has none: 1",
        "size of the machine lost, the format has none: 9",
    ]
    assert nsa_losses(workload(jobs[:1])) == []
