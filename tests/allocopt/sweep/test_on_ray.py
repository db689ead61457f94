"""On a Ray cluster of this machine: the same rows, also when a worker or a node is killed."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.sweeps import (
    RayCluster,
    finished,
    kill,
    members,
    one_of,
    ray_cluster,
    ray_node,
    ray_workers,
    start_sweep,
    untimed,
    wait_for,
    write_sweep,
)
from support.windows import paper_window

from allocopt.files.instance import write_problems

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

CELLS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Cluster of two cores; skipped without Ray, but not in continuous integration."""
    if find_spec("ray") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("needs ray, which comes with allocopt[distributed]")
        pytest.skip("needs ray")
    with ray_cluster(2) as started:
        yield started


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grid that was run on this machine, without Ray."""
    folder = tmp_path_factory.mktemp("ray")
    write_problems(folder / "windows.jsonl", [paper_window(index) for index in range(4)])
    grid = write_sweep(
        folder / "grid.toml", instances=["windows.jsonl"], solvers=["lns:free"], seeds=CELLS // 4, iterations=50_000
    )
    process = start_sweep(grid, "--workers", "2")
    assert process.wait() == 0, process.communicate()
    return grid


def assert_same_rows(grid: Path, table: Path) -> None:
    rows = untimed(table)
    assert len(rows) == CELLS
    assert rows == untimed(grid.with_suffix(".csv"))
    assert finished(table) == CELLS


def test_rows_are_those_of_this_machine_and_survive_a_killed_worker(
    cluster: RayCluster, grid: Path, tmp_path: Path
) -> None:
    table = tmp_path / "rows.csv"
    process = start_sweep(grid, "-o", table, "--ray", cluster.address)
    assert wait_for(lambda: finished(table) >= CELLS // 5)
    killed = one_of(ray_workers, cluster.session)
    kill(killed)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    assert killed not in members(cluster.session)
    assert_same_rows(grid, table)


def test_a_killed_driver_leaves_no_cell_running_and_loses_none(cluster: RayCluster, grid: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    process = start_sweep(grid, "-o", table, "--ray", cluster.address)
    assert wait_for(lambda: finished(table) >= CELLS // 5)
    process.kill()
    process.communicate()
    before = finished(table)
    assert wait_for(lambda: not ray_workers(cluster.session)), "cells run on without a driver"
    process = start_sweep(grid, "-o", table, "--ray", cluster.address)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    assert f"{before} of {CELLS} cells are in " in out
    assert_same_rows(grid, table)


def test_a_killed_node_loses_no_cell(cluster: RayCluster, grid: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    with ray_node(cluster) as second:
        process = start_sweep(grid, "-o", table, "--ray", cluster.address)
        assert wait_for(lambda: finished(table) >= CELLS // 5)
        one_of(ray_workers, second)
        for pid in members(second):
            kill(pid)
        out, _ = process.communicate()
    assert process.returncode == 0, out
    assert_same_rows(grid, table)
