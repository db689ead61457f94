"""What the reproductions measure is what the simulator gives, and curves are read right."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.reproduction import ReproductionRequest, ReproductionRow, get_reproduction, reproduction_names
from allocopt.simulator.multicore.state import ExecutionKind
from papers.artifact import Artifact
from papers.irmasim.figures import (
    EIGHT,
    ELEVEN,
    NINE,
    ONE,
    SEVEN,
    UNTIL,
    WORST,
    favoured_from,
    machine,
    smoothed_shares,
    workload,
)

QUICK = ReproductionRequest(Path("nowhere"), True, (0, 1))


def values(rows: list[ReproductionRow]) -> dict[tuple[str, str], float | None]:
    return {(row.row, row.column): row.ours for row in rows}


def test_every_figure_is_found_by_name() -> None:
    names = [name for name in reproduction_names() if name.startswith("irmasim-")]
    assert sorted(names) == sorted(f"irmasim-figure{number}" for number in (1, 7, 8, 9, 10, 11))
    for name in names:
        assert get_reproduction(name).name == name


def test_figure_1_slows_lu_down_on_the_fast_node_most_and_ep_hardly() -> None:
    figure = ONE
    found = values(figure.rows(QUICK, {piece: figure.measure(QUICK, piece) for piece in figure.pieces(QUICK)}))
    mean = {key: value for key, value in found.items() if key[1].startswith("mean")}
    lu = {node: mean[f"contention: lu.A, {node} node", "mean times as long as alone"] for node in ("fast", "slow")}
    ep = mean["contention: ep.A, fast node", "mean times as long as alone"]
    assert lu["fast"] is not None
    assert lu["slow"] is not None
    assert ep is not None
    assert lu["fast"] > lu["slow"] > 1.0
    assert 1.0 <= ep < 1.05
    alone = [value for (row, _), value in mean.items() if row.startswith("baseline")]
    np.testing.assert_allclose(np.array(alone, dtype=float), 1.0)
    assert len(workload()) == 20
    assert machine().cores == 8


@pytest.mark.parametrize("figure", [SEVEN, EIGHT], ids=["7", "8"])
def test_the_baseline_is_quicker_and_takes_less_energy(figure: Artifact) -> None:
    pieces = [piece for piece in figure.pieces(QUICK) if piece.startswith("100 jobs")]
    records = {piece: figure.measure(QUICK, piece) for piece in pieces}
    found = values(figure.rows(QUICK, records))
    for column in ("makespan", "energy"):
        below = found["100 jobs: baseline below contention", f"{column} %"]
        assert below is not None
        assert 0 < below < 100


def test_energies_differ_by_policy_under_contention_and_hardly_under_the_baseline() -> None:
    figure = NINE
    found = values(figure.rows(QUICK, {piece: figure.measure(QUICK, piece) for piece in figure.pieces(QUICK)}))
    contention, baseline = (found[str(kind), WORST] for kind in ExecutionKind)
    assert contention is not None
    assert baseline is not None
    assert contention > 5.0
    assert baseline < 1.5


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
    figure = ELEVEN
    record = figure.measure(QUICK, "seed 1")
    rows = figure.rows(QUICK, {"seed 1": record})
    found = values(rows)
    energy = found["seed 1", "energy over the best policy"]
    assert energy is not None
    assert energy == pytest.approx(record["played"] / min(record["alone"]))
    assert ("seed 1", UNTIL) in found
    shares = [row.ours for row in rows if row.column.endswith("at episode 320")]
    assert sum(share for share in shares if share is not None) == pytest.approx(1.0)
