"""``allocopt simulate``: the row, the files, and what is said of a wrong request."""

import csv
import json
from importlib import import_module
from pathlib import Path

import pytest
from support.program import Run

from allocopt.simulator.kernels.conservative import run_conservative as kernel
from allocopt.simulator.state import State
from allocopt.traces.reading import read_workload

KEYS = "jobs mean_wait_s max_wait_s mean_bounded_slowdown utilization makespan_s runtime_s jobs_per_s".split()

JOBS = [
    # id, submit, run, processors, estimate
    (1, 0, 100, 3, 100),
    (2, 10, 50, 4, 60),
    (3, 20, 30, 1, 40),
    (4, 30, 500, 1, 600),
    (5, 40, 20, 1, 30),
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five jobs on four processors: job 2 heads the queue until 100 s, job 3 can be backfilled, job 4 cannot."""
    lines = [f"{job} {at} -1 {run} -1 -1 -1 {size} {limit}{' -1' * 9}" for job, at, run, size, limit in JOBS]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(["; MaxProcs: 4", *lines]))
    return path


def starts(path: Path) -> list[int]:
    """Read the start times from a schedule's CSV file."""
    with path.open() as file:
        return [int(row["start"]) for row in csv.DictReader(file)]


def test_the_row_has_the_fields_that_other_tools_read(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--json")
    row = json.loads(answer.out)
    assert (answer.code, list(row)) == (0, KEYS)
    assert (row["jobs"], row["makespan_s"]) == (5, 650)


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        ("none", [0, 100, 150, 150, 150]),
        ("easy", [0, 100, 20, 150, 50]),
        ("first-fit", [0, 550, 20, 50, 100]),
        ("conservative", [0, 100, 20, 150, 50]),
    ],
)
def test_every_backfilling_gives_the_schedule_worked_out_by_hand(
    run: Run, trace: Path, backfill: str, expected: list[int]
) -> None:
    out = trace.parent / "jobs.csv"
    assert run("simulate", trace, "--backfill", backfill, "--jobs-csv", out).code == 0
    assert starts(out) == expected
    assert out.read_text().splitlines()[0] == "job_id,submit,start,end,processors,run,estimate"


def test_without_compression_a_reservation_stays_where_it_is(run: Run, trace: Path) -> None:
    out = trace.parent / "jobs.csv"
    run("simulate", trace, "--backfill", "conservative", "--set", "conservative_compression=false", "--jobs-csv", out)
    assert starts(out) == [0, 100, 20, 160, 60]


def test_a_schedule_can_be_written_as_swf_and_read_again(run: Run, trace: Path) -> None:
    out = trace.parent / "schedule.swf"
    assert run("simulate", trace, "--swf", out).code == 0
    assert read_workload(out).run.tolist() == [100, 50, 30, 500, 20]


def test_exact_estimates_let_a_scheduler_know_the_run_times(run: Run, trace: Path) -> None:
    out = trace.parent / "jobs.csv"
    run("simulate", trace, "--backfill", "conservative", "--set", "exact_estimates=true", "--jobs-csv", out)
    assert starts(out) == [0, 100, 20, 150, 50]


def test_why_a_job_waited_is_said_pass_by_pass(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--backfill", "easy", "--explain", "4", "--json")
    assert json.loads(answer.out)["jobs"] == 5
    assert answer.lines_of_error[1:] == [
        "job 4: submitted at 30 s, started at 150 s, waited 120 s",
        "  30 s to 50 s (3 passes): number 2 in the queue, asks for 1 processor with 0 processors free",
        "  70 s: number 2 in the queue, would fit, but run until 670 s, beyond 100 s, when the head, job 2, is to "
        "start with 0 processors to spare",
        "  100 s: first in the queue, asks for 1 processor with 0 processors free; fits at 160 s by the estimates, "
        "after 2",
    ]


@pytest.mark.parametrize(
    ("backfill", "said"),
    [
        (
            "none",
            "number 3 in the queue, nobody overtakes its head, job 2, which asks for 4 processors with 1 processor",
        ),
        ("first-fit", "number 2 in the queue, asks for 1 processor with 0 processors free"),
        ("conservative", "has a reservation for 160 s, the first time that leaves 1 processor for 600 s"),
    ],
)
def test_the_reason_is_that_of_the_backfilling(run: Run, trace: Path, backfill: str, said: str) -> None:
    assert said in run("simulate", trace, "--backfill", backfill, "--explain", "4").out


def test_nodes_of_a_fat_tree_are_given_out_and_hop_costs_measured(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--fat-tree", "1,2,2", "--allocator", "greedy")
    assert answer.code == 0
    assert "fragmentation of idle nodes, level 1" in answer.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--processors", "3"],
            3,
            "job 2: asks for 4 processors, the machine has 3; skip_oversized = true drops such jobs",
        ),
        (["--policy", "fcsf"], 2, "did you mean 'fcfs'?"),
        (["--set", "backfill_order=sjf"], 2, "an order of backfilling goes with EASY and first-fit backfilling only"),
        (["--fat-tree", "2,2"], 2, "must be three positive numbers such as 10,10,10"),
        (["--fat-tree", "9" * 5000 + ",1,1"], 2, "must be three positive numbers such as 10,10,10"),
        (["--fat-tree", "²,1,1"], 2, "must be three positive numbers such as 10,10,10"),
        (["--fat-tree", "1,2,2", "--processors", "4"], 2, "give one"),
        (["--allocator", "dp"], 2, "allocator: needs to know how the nodes are connected: give fat_tree"),
        (["--fat-tree", "1,2,2", "--set", "strategy=scas"], 2, "strategy: is that of an allocator, which is not given"),
        (["--policy", "window", "--fat-tree", "1,2,2", "--allocator", "dp"], 2, "'window' allocates by itself"),
        (["--policy", "window", "--fat-tree", "1,2,2", "--option", "period_s=1e-300"], 2, "must be within 0.001 and"),
        (["--explain", "77"], 2, "there is no job 77 to explain in log"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line(
    run: Run, trace: Path, arguments: list[str], code: int, said: str
) -> None:
    answer = run("simulate", trace, *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.lines_of_error[-1]


def test_jobs_larger_than_the_machine_are_skipped_and_counted_on_request(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--processors", "3", "--set", "skip_oversized=true", "--json")
    assert json.loads(answer.out)["jobs"] == 4
    assert "allocopt: log: jobs dropped, larger than the machine: 1" in answer.lines_of_error


def test_a_machine_of_another_size_than_the_traces_own_is_remarked(run: Run, trace: Path) -> None:
    own = run("simulate", trace).err
    assert "own machine" not in own
    other = run("simulate", trace, "--processors", "100")
    assert [line for line in other.lines_of_error if "own machine" in line] == [
        "allocopt: log: the trace's own machine has size 4, this one 100"
    ]


def test_a_trace_without_the_size_of_its_machine_needs_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("1 0 10 2\n")
    answer = run("simulate", tmp_path / "log.txt")
    assert (answer.code, "give processors" in answer.lines_of_error[-1]) == (3, True)
    assert run("simulate", tmp_path / "log.txt", "--processors", "2").code == 0


def test_processors_are_those_of_the_trace_where_jobs_get_whole_nodes(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--processors", "4", "--set", "processors_per_node=3")
    assert answer.lines_of_error == [
        "allocopt: job 2: asks for 2 nodes, the machine has 1; skip_oversized = true drops such jobs"
    ]


@pytest.mark.parametrize("size", ["1,024", "1e3", "many"])
def test_a_header_that_is_no_whole_number_says_nothing_of_the_machine(run: Run, trace: Path, size: str) -> None:
    trace.write_text(trace.read_text().replace("MaxProcs: 4", f"MaxProcs: {size}"))
    assert "does not say how large" in run("simulate", trace).lines_of_error[-1]


def test_a_machine_that_is_less_than_a_node_is_refused(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--processors", "3", "--set", "processors_per_node=4")
    assert (answer.code, answer.lines_of_error[-1]) == (2, "allocopt: processors: 3 are less than one node of 4")


@pytest.mark.slow
def test_an_interrupt_ends_a_long_simulation(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{job} 0 -1 100 -1 -1 -1 3 200{' -1' * 9}" for job in range(1, 100_001)]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 10", *lines]))

    def interrupted(state: State, passes: int) -> int:
        assert kernel(state, passes) == passes, "the kernel has done a minute's work at once"
        raise KeyboardInterrupt

    simulating = import_module("allocopt.simulator.simulate")
    monkeypatch.setattr(simulating, "run_conservative", interrupted)
    monkeypatch.setattr(simulating, "make_ready", lambda entries: kernel.load())
    monkeypatch.setattr("allocopt.experiments.simulations.make_ready", lambda entries: None)
    arguments = ("--policy", "sjf", "--backfill", "conservative")
    assert run("simulate", tmp_path / "log.swf", *arguments).code == 130
