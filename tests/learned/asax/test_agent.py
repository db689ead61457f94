"""ASAX: what is drawn, whom a guest is offered to, what is learned, and that it lasts."""

import json
from collections import Counter
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.errors import BadFileError, UsageError
from allocopt.learned.asax.scheduler import Asax, Knowledge
from allocopt.learned.asax.trees import Experts, State
from allocopt.traces.job_profile import StageKind

BUSY = State(0.96, 0.44, StageKind.PARALLEL, 0.6, 1.5)
IDLE = State(0.05, 0.10, StageKind.SEQUENTIAL, 0.6, 1.5)
METRICS = ("cpu", "memory", "stage", "interval")
BLAST = ("applications", "blast")


def fixed(actions: list[int], **experts: list[int]) -> Asax:
    """Return experts whose likelihoods are the same in every state."""
    rows = {name: {name: [0, 1], "p": p, "happiness": [0.0, float("inf")]} for name, p in experts.items()}
    held = [{"metric": name, "rows": [row]} for name, row in rows.items()]
    return Asax.untrained(Experts.of({"actions": actions, "experts": held}, "table"))


def opposites() -> Asax:
    """One expert that never gives anything, and one that always gives half."""
    return fixed([0, 50], cpu=[1, 0], memory=[0, 1])


@pytest.mark.parametrize(
    ("run", "full", "loss"), [(140, 1.0, 0.4), (70, 1.0, 0.0), (100, 1.0, 0.0), (300, 1.0, 1.0), (125, 0.5, 0.5)]
)
def test_the_loss_is_that_of_the_paper(run: float, full: float, loss: float) -> None:
    assert Asax.untrained(full_loss_at=full).performance_loss(run, 100) == pytest.approx(loss)


def test_quotas_are_drawn_from_the_mixture_of_the_experts() -> None:
    asax, rng = Asax.untrained(), np.random.default_rng(1)
    likely = asax.mixture("montage", IDLE)
    assert likely == pytest.approx(asax.experts.probabilities(IDLE).mean(axis=0))
    drawn = Counter(asax.decide("montage", IDLE, rng).percent for _ in range(4000))
    for percent, share in zip(asax.experts.actions, likely.tolist(), strict=True):
        assert drawn[percent] / 4000 == pytest.approx(share, abs=0.03)


def test_a_busy_happy_job_refuses_far_more_often_than_an_idle_one() -> None:
    asax = Asax.untrained()
    busy, idle = asax.mixture("a", BUSY), asax.mixture("a", IDLE)
    assert busy[0] > 10 * idle[0] > 0
    assert busy @ asax.experts.actions < idle @ asax.experts.actions


def test_losses_turn_the_mixture_to_the_expert_that_gives_nothing_and_without_any_nothing_is_learned() -> None:
    asax, rng = opposites(), np.random.default_rng(2)
    assert not any(asax.learn(asax.decide("blast", IDLE, rng), 0.0) for _ in range(50))
    assert asax.mixture("blast", BUSY).tolist() == [0.5, 0.5]
    for _ in range(60):
        decision = asax.decide("blast", BUSY, rng)
        asax.learn(decision, 1.0 if decision.percent else 0.0)
    assert asax.mixture("blast", BUSY)[0] > 0.95
    assert asax.mixture("montage", BUSY)[0] == 0.5
    (risk, bound) = asax.excess_risks()["blast"]
    assert 0 <= risk <= bound


def test_a_guest_that_is_there_is_given_something() -> None:
    asax, rng = opposites(), np.random.default_rng(6)
    assert {asax.decide("a", IDLE, rng).percent for _ in range(40)} == {0, 50}
    assert {asax.decide("a", IDLE, rng, is_shared=True).percent for _ in range(40)} == {50}
    never = fixed([0, 10, 50], cpu=[1, 0, 0])
    assert never.decide("a", IDLE, rng).percent == 0
    assert never.decide("a", IDLE, rng, is_shared=True).percent == 10


def test_the_seed_decides_what_is_drawn() -> None:
    asax = Asax.untrained()
    rngs = map(np.random.default_rng, (1, 1, 2))
    draws = [[asax.decide("montage", IDLE, rng).percent for _ in range(20)] for rng in rngs]
    assert draws[0] == draws[1] != draws[2]


def test_losses_out_of_range_and_knowledge_of_other_experts_are_refused() -> None:
    asax = Asax.untrained()
    for loss in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match=r"must be within 0 \.\. 1"):
            asax.learn(asax.decide("a", IDLE, np.random.default_rng(0)), loss)
    with pytest.raises(UsageError, match="the knowledge was learned by experts for"):
        Asax(asax.experts, Knowledge(("cpu",)))
    with pytest.raises(UsageError, match="full_loss_at is 0"):
        Asax.untrained(full_loss_at=0.0)


def trained() -> Asax:
    asax, rng = Asax.untrained(), np.random.default_rng(4)
    for application in ("blast", "montage"):
        for _ in range(50):
            asax.learn(asax.decide(application, BUSY, rng), float(rng.random()))
    return asax


def test_what_was_learned_survives_its_file_and_goes_on(tmp_path: Path) -> None:
    path, asax = tmp_path / "k.json", trained()
    asax.knowledge.save(path)
    again = Asax(asax.experts, Knowledge.load(path, METRICS))
    assert again.knowledge.of("blast").rounds == asax.knowledge.of("blast").rounds > 0
    for one in (asax, again):
        rng = np.random.default_rng(5)
        for _ in range(30):
            one.learn(one.decide("blast", BUSY, rng), float(rng.random()))
    for application in ("blast", "montage", "new"):
        assert (again.mixture(application, IDLE) == asax.mixture(application, IDLE)).all()
    assert again.excess_risks() == asax.excess_risks()


@pytest.mark.parametrize(
    ("place", "change", "fault"),
    [
        ((), {"format": "other"}, "format: is 'other'"),
        ((), {"metrics": ["cpu"]}, "metrics: are ['cpu'], must be those of the experts"),
        ((), {"update": "best"}, "update: is 'best', must be one of cumulative, as-printed"),
        ((), {"horizon": 0}, "horizon: is 0"),
        ((), {"applications": []}, "applications: is an empty list, must be an object"),
        (("applications",), {"a": {"alpha": [1]}}, "applications.a: must have the keys alpha"),
        (BLAST, {"alpha": [0.5] * 4}, "applications.blast.alpha: sums to 2, must sum to 1"),
        (BLAST, {"past_risk": [1, 2]}, "applications.blast.past_risk: must hold 4 numbers >= 0"),
        (BLAST, {"rounds": -1}, "applications.blast.rounds: is -1"),
        (BLAST, {"rate_sum": "x"}, "applications.blast.rate_sum: must hold 1 numbers"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, place: tuple[str, ...], change: dict[str, Any], fault: str) -> None:
    path = tmp_path / "k.json"
    trained().knowledge.save(path)
    held = json.loads(path.read_text(encoding="utf-8"))
    reduce(getitem, place, held).update(change)
    path.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(BadFileError) as caught:
        Knowledge.load(path, METRICS)
    assert f"k.json: {fault}" in str(caught.value)
