"""Downtimes that a file gives to `simulate` and `sweep`."""

import json
from pathlib import Path

import pytest
from support.program import Run


def site(folder: Path, rows: str) -> list[str]:
    """Write two jobs of a minute on a cluster of four nodes with downtimes; return arguments of `simulate`."""
    (folder / "slurm.conf").write_text("NodeName=n[0-3] CPUs=1\nPartitionName=all Nodes=ALL Default=YES\n")
    (folder / "jobs.csv").write_text("id,submit,run,nodes\n1,1000,60,1\n2,1010,60,1\n")
    (folder / "down.csv").write_text(f"nodes,begin_s,end_s,announced\n{rows}")
    return ["simulate", "jobs.csv", "--cluster", "slurm.conf", "--set", "downtimes=down.csv"]


def test_simulate_counts_what_failures_cost_and_downtimes_that_come_too_late(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*site(tmp_path, '"n[0-3]",30,40,no\nn0,500,,yes\n'), "--json")
    assert done.code == 0
    assert json.loads(done.out)["makespan_s"] == 100
    assert "jobs stopped and queued again: 2, 0.0 processor hours of their work lost" in done.err
    assert "downtimes that begin after all jobs have ended, 100 s: 1" in done.err


def test_an_unknown_node_of_a_downtime_is_named_with_its_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*site(tmp_path, "n0,30,40,no\nn9,30,40,no\n"))
    assert (done.code, "down.csv: line 3: the machine has no node 'n9'" in done.err) == (3, True)


def test_a_sweep_does_not_take_rows_of_other_downtimes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = '[[traces]]\nfile = "jobs.csv"\ncluster = ["slurm.conf"]\ndowntimes = "down.csv"\n'
    (tmp_path / "sweep.toml").write_text(f'{trace}[[policies]]\nname = "fcfs"\n')
    last = []
    for rows in ("n0,30,40,no\n", '"n[0-3]",0,900,yes\n'):
        site(tmp_path, rows)
        assert run("sweep", "sweep.toml", "--out", "rows.csv").code == 0
        last.append((tmp_path / "rows.csv").read_text().splitlines()[-1])
    assert last[0] != last[1]
