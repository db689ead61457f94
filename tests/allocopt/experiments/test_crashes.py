"""Whatever is killed, and however often: nothing that is finished is lost, nothing is run twice, the rows are equal."""

import sys
from pathlib import Path

import pytest
from support.gated import CELLS, UNGATED
from support.sweeps import Gate, finished, kill, members, one_of, start, times_kept, untimed, wait_for, workers

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Commands of which a test says when all but two cells end."""
    return Gate(tmp_path, monkeypatch)


def command_of(gate: Gate, name: str) -> list[str | Path]:
    """Return a command of `CELLS` cells, which ends where its output is to be named."""
    if name == "sweep":
        return [name, gate.grid, "-o"]
    if name == "bench":
        solvers = ",".join(f"{solver}:free" for solver in gate.solvers)
        return [name, gate.folder / "window.json", "--solvers", solvers, "--iterations", "50", "--out"]
    if name == "reproduce":
        return [name, "gated", "--out"]
    site = ("--trace", gate.folder / "jobs.csv", "--topology", gate.folder / "topology.conf")
    return [name, *site, "--allocators", ",".join(gate.solvers), "--iterations", "5", "--out"]


@pytest.mark.parametrize(("name", "kills"), [("sweep", 5), ("bench", 5), ("what-if", 5), ("reproduce", 2)])
def test_a_run_whose_driver_and_workers_are_killed_ends_with_the_rows_of_an_undisturbed_one(
    gate: Gate, name: str, kills: int
) -> None:
    command = command_of(gate, name)
    suffix = ".json" if name == "reproduce" else ".csv"
    whole, output = (gate.folder / f"{stem}{suffix}" for stem in ("whole", "killed"))
    gate.open()
    undisturbed = start(*command, whole, "--workers", "2")
    out, _ = undisturbed.communicate()
    assert undisturbed.returncode == 0, out
    passed = gate.passed()
    gate.open(UNGATED)
    for number in range(kills):
        driver = start(*command, output, "--workers", "2")
        assert driver.stdout is not None
        assert wait_for(lambda: finished(output) == UNGATED + number), "nothing is finished"  # noqa: B023
        kill(one_of(workers, driver.pid))
        assert any(
            "killed by SIGKILL, perhaps because memory ran out; attempt 2 of 3" in line for line in driver.stdout
        )
        if number:
            # All workers, and what starts them.
            for pid in set(members(driver.pid)) - {driver.pid}:
                kill(pid)
            assert any("; attempt " in line for line in driver.stdout)
            one_of(workers, driver.pid)
        driver.kill()
        driver.communicate()
        assert wait_for(lambda: not members(driver.pid)), "workers have outlived the driver"  # noqa: B023
        assert not output.exists()
        gate.open(UNGATED + number + 1)
    assert times_kept(output) == [1] * (UNGATED + kills - 1)
    gate.open()
    last = start(*command, output, "--workers", "2")
    out, _ = last.communicate()
    assert last.returncode == 0, out
    assert f"{UNGATED + kills - 1} of {CELLS} " in out
    assert untimed(output) == untimed(whole)
    assert gate.passed() == passed
    assert finished(output) == (CELLS if name == "sweep" else 0)
