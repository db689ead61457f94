"""``allocopt place-pods``."""

from pathlib import Path

import pytest
from support.program import Run

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,2,T4\nb,16000,65536,2,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nx,2000,1,1,700,\ny,2000,1,1,300,T4\nz,1000,1,0,0,\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, text in (("nodes.csv", NODES), ("pods.csv", PODS)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv")]


def test_every_policy_has_a_line_beside_the_first(run: Run, files: list[str]) -> None:
    answer = run("place-pods", *files, "--policies", "fgd,best-fit", "--asked", "0.9", "--orders", "3", "--ceiling")
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split("|")[1].strip() for line in answer.out.splitlines() if line.startswith("|")]
    assert lines[2:] == ["fgd", "best-fit", "ceiling"]


def test_figures_of_all_orders_are_printed_as_json(run: Run, files: list[str]) -> None:
    answer = run("place-pods", *files, "--policies", "fgd", "--orders", "2", "--ceiling", "--json")
    (found,) = answer.rows
    assert (found["nodes"], found["gpus"]) == (2, 4)
    fgd, ceiling = found["rows"]
    assert len(fgd["allocated_percent"]) == 2
    assert all(a <= b + 1e-6 for a, b in zip(fgd["allocated_percent"], ceiling["allocated_percent"], strict=True))


def test_the_same_seed_gives_the_same_figures(run: Run, files: list[str]) -> None:
    rows = [run("place-pods", *files, "--orders", "2", "--seed", "7", "--json").rows[0]["rows"] for _ in range(2)]
    assert [row["allocated_percent"] for row in rows[0]] == [row["allocated_percent"] for row in rows[1]]


def test_an_unknown_policy_is_refused_with_the_known_ones(run: Run, files: list[str]) -> None:
    assert "there is no pod policy 'fdg'; did you mean 'fgd'?" in run(
        "place-pods", *files, "--policies", "fdg"
    ).refusal(2)


def test_a_table_without_a_column_is_refused_by_file_and_line(run: Run, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("name,cpu_milli\nx,1\n")
    fault = run("place-pods", *files).refusal(3)
    assert "pods.csv: line 1: has no column memory_mib, num_gpu, gpu_milli" in fault
