"""What the reproductions measure is what the simulator gives, and curves are read right."""

from pathlib import Path

import numpy as np
import pytest
from support.artifacts import ours, rows_of

from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.multicore.state import ExecutionKind
from papers.irmasim.figures import ELEVEN, UNTIL, WORST, favoured_from, machine, smoothed_shares, workload

QUICK = ReproductionRequest(Path("nowhere"), True, (0, 1))


def test_figure_1_slows_lu_down_on_the_fast_node_most_and_ep_hardly() -> None:
    column = "mean times as long as alone"
    rows = rows_of("irmasim-figure1", QUICK)
    fast, slow = (ours(rows, f"contention: lu.A, {node} node", column) for node in ("fast", "slow"))
    assert fast > slow > 1.0
    assert 1.0 <= ours(rows, "contention: ep.A, fast node", column) < 1.05
    alone = [number.ours for (row, at), number in rows.items() if row.startswith("baseline") and at == column]
    np.testing.assert_allclose(np.array(alone, dtype=float), 1.0)
    assert len(workload()) == 20
    assert machine().cores == 8


@pytest.mark.parametrize("figure", [7, 8])
def test_the_baseline_is_quicker_and_takes_less_energy(figure: int) -> None:
    rows = rows_of(f"irmasim-figure{figure}", QUICK, "100 jobs")
    for column in ("makespan", "energy"):
        assert 0 < ours(rows, "100 jobs: baseline below contention", f"{column} %") < 100


def test_energies_differ_by_policy_under_contention_and_hardly_under_the_baseline() -> None:
    rows = rows_of("irmasim-figure9", QUICK)
    assert ours(rows, ExecutionKind.CONTENTION, WORST) > 5.0
    assert ours(rows, ExecutionKind.BASELINE, WORST) < 1.5


def test_a_policy_is_favoured_from_where_it_stays_above_a_half() -> None:
    shares = np.zeros((40, 2))
    shares[:, 0] = [0.9] * 5 + [0.2] * 15 + [0.8] * 20
    shares[:, 1] = 1 - shares[:, 0]
    smoothed = smoothed_shares(shares)
    np.testing.assert_allclose(smoothed[12, 0], shares[3:13, 0].mean())
    first = favoured_from(shares)
    assert first is not None
    assert (smoothed[first:, 0] > 0.5).all()
    assert smoothed[first - 1, 0] <= 0.5
    assert favoured_from(np.full((40, 3), 1 / 3)) is None
    assert favoured_from(np.tile([0.7, 0.3], (40, 1))) == 0


@pytest.mark.slow
def test_the_convergence_of_an_agent_is_measured() -> None:
    pytest.importorskip("torch")
    record = ELEVEN.measure(QUICK, "seed 1")
    rows = {(row.row, row.column): row for row in ELEVEN.rows(QUICK, {"seed 1": record})}
    energy = ours(rows, "seed 1", "energy over the best policy")
    assert energy == pytest.approx(record["played"] / min(record["alone"]))
    assert ("seed 1", UNTIL) in rows
    shares = [number.ours or 0.0 for (_, column), number in rows.items() if column.endswith("at episode 320")]
    assert sum(shares) == pytest.approx(1.0)
