"""No command overwrites what it reads, or writes two answers into one file."""

from pathlib import Path

import pytest
from support.program import Run

from allocopt.cli.options import check_files_differ
from allocopt.errors import UsageError

TOPOLOGY = "SwitchName=s1 Nodes=n[01-04]\nSwitchName=s2 Nodes=n[05-08]\nSwitchName=top Switches=s[1-2]\n"
JOBS = "job_id,submit,run,nodes\n1,0,100,2\n2,5,100,3\n3,9,100,8\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Folder with a file of each kind, in which the program runs."""
    monkeypatch.chdir(tmp_path)
    Path("topology.conf").write_text(TOPOLOGY, encoding="utf-8")
    Path("jobs.csv").write_text(JOBS, encoding="utf-8")
    Path("queue.json").write_text("a 3\n", encoding="utf-8")
    Path("linked.conf").symlink_to("topology.conf")
    Path("easy,first.csv").write_text(JOBS, encoding="utf-8")
    for name in ("now.json", "window.json"):
        made = run(
            "generate", "window", "--topology", "topology.conf", "--job", "a=3", "--name", "window", "--out", name
        )
        assert made.code == 0
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "convert jobs.csv jobs.csv --max-jobs 1",
        "convert topology.conf topology.conf",
        "convert topology.conf linked.conf",
        "convert linked.conf topology.conf",
        "solve now.json --trajectory now.json",
        "solve now.json --export now.json --strategy scas --solver highs",
        "solve window.json --solution .",
        "bench now.json --solvers greedy --out now.json",
        "bench now.json --solvers greedy --trajectory ./now.json",
        "bench now.json --solvers greedy --out x.csv --trajectory x.csv",
        "bench now.json --solvers greedy --out best_known.json",
        "bench now.json --solvers greedy --best-known queue.json --out queue.json",
        "generate window --topology topology.conf --queue queue.json --out queue.json",
        "generate window --topology topology.conf --queue queue.json --name queue --out .",
        "what-if --trace jobs.csv --topology topology.conf --allocators first --report jobs.csv",
        "what-if --trace easy,first.csv --topology topology.conf --allocators first --jobs-csv .",
        "calibrate locality jobs.csv --out jobs.csv",
        "calibrate power jobs.csv --out jobs.csv",
        "calibrate power jobs.csv --plot jobs.csv",
        "simulate jobs.csv --swf jobs.csv",
        "simulate jobs.csv --jobs-csv a.csv --swf a.csv",
        "simulate jobs.csv --platform now.json --energy-csv missing/../now.json",
        "simulate jobs.csv --platform now.json --set placement=queue.json --jobs-csv queue.json",
        "report jobs.csv -o jobs.csv",
        "report now.json -o now.json",
        "report now.json -o x.html --topology x.html",
    ],
)
def test_what_is_read_is_not_overwritten(run: Run, site: Path, command: str) -> None:
    before = {path.name: path.read_bytes() for path in site.iterdir()}
    answer = run(*command.split())
    assert answer.code == 2
    assert "is named twice: what is read and what is written must be different files" in answer.err
    assert {path.name: path.read_bytes() for path in site.iterdir()} == before


def test_a_solution_takes_the_place_of_the_one_it_began_with(run: Run, site: Path) -> None:
    assert run("solve", "now.json", "--solution", "out", "--solver", "greedy").code == 0
    assert run("solve", "now.json", "--solution", "out", "--warm-start", "out/window.json").code == 0


def test_inputs_may_be_named_again_and_outputs_thrown_away(tmp_path: Path) -> None:
    null, read = Path("/dev/null"), tmp_path / "read"
    check_files_differ(null, null, tmp_path / "written", tmp_path, tmp_path, read=[read, read, None])


def test_a_file_of_several_topologies_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="is named twice"):
        check_files_differ(file, read=[Path(f"{file}#gpu")])


def test_a_link_to_itself_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_files_differ(tmp_path / "loop", tmp_path / "x", tmp_path / ("long" * 100))
