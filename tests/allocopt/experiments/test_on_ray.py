"""On a Ray cluster of this machine: the same rows, whatever is killed."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.gated import CELLS, UNGATED
from support.ray_nodes import head_node, running_cells, second_node
from support.sweeps import Gate, finished, kill, members, one_of, start, times_kept, untimed, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


def test_rows_are_those_of_this_machine_though_a_worker_the_driver_and_a_node_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("ray") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("needs ray, which comes with allocopt[distributed]")
        pytest.skip("needs ray")
    gate = Gate(tmp_path, monkeypatch)
    gate.open()
    here = start("sweep", gate.grid, "--workers", "1")
    table = tmp_path / "rows.csv"
    with head_node() as (address, session):
        assert here.wait() == 0, here.communicate()
        passed = gate.passed()
        gate.open(UNGATED)
        sweep = ("sweep", gate.grid, "-o", table, "--ray", address)
        first = start(*sweep)
        assert wait_for(lambda: finished(table) == UNGATED)
        kill(one_of(running_cells, session))
        assert first.stdout is not None
        assert any("its worker was lost (WorkerCrashedError); attempt 2 of 3" in line for line in first.stdout)
        first.kill()
        first.communicate()
        assert wait_for(lambda: not running_cells(session)), "cells run on without a driver"
        second = start(*sweep)
        with second_node(address) as other:
            one_of(running_cells, other)
            for pid in members(other):
                kill(pid)
        gate.open()
        out, _ = second.communicate()
    assert second.returncode == 0, out
    assert f"{UNGATED} of {CELLS} cells are in " in out
    assert "its worker was lost (" in out
    assert untimed(table) == untimed(gate.grid.with_suffix(".csv"))
    assert times_kept(table) == [1] * CELLS
    assert gate.passed() == passed
