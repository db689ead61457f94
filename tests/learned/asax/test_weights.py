"""Weights of experts: rounds of Algorithm 1, both updates, their bounds on every run and against adversaries."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.learned.asax.scheduler import _Update, _Weights

Adversary = Callable[[_Weights, int], FloatArray]
ROUNDS = 400


def on(expert: int, weights: _Weights) -> FloatArray:
    return np.eye(weights.n)[expert]


ADVERSARIES: dict[str, Adversary] = {
    "against the heavy": lambda weights, step: on(int(weights.alpha.argmax()), weights),
    "against the light": lambda weights, step: on(int(weights.alpha.argmin()), weights),
    "in turn": lambda weights, step: on(step // 2 % weights.n, weights),
    "the second is better, then the first": lambda weights, step: on(0 if step < ROUNDS // 2 else 1, weights),
    "at random": lambda weights, step: np.random.default_rng(step).random(weights.n),
    "all but one": lambda weights, step: (np.arange(weights.n) < weights.n - 1).astype(float),
}


def played(weights: _Weights, adversary: Adversary, rounds: int) -> _Weights:
    """Let an adversary play so many rounds, and look at the bound after every action."""
    step = 0
    while weights.rounds < rounds:
        weights.add(adversary(weights, step))
        step += 1
        assert weights.excess_risk <= weights.risk_bound + 1e-9
    return weights


@pytest.mark.parametrize(
    ("n", "update"), [(n, _Update.CUMULATIVE) for n in (2, 4, 9)] + [(n, _Update.AS_PRINTED) for n in (2, 4)]
)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_the_excess_risk_stays_under_the_bound_against_every_adversary(n: int, update: _Update, adversary: str) -> None:
    weights = played(_Weights(n, update, horizon=ROUNDS), ADVERSARIES[adversary], ROUNDS)
    assert weights.risk_bound == pytest.approx(
        math.log(n) / weights.gamma(ROUNDS + 1) + sum(weights.gamma(t) for t in range(1, ROUNDS + 2)) / 2
    )


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), max_size=200), st.sampled_from(list(_Update)))
def test_the_bound_holds_after_every_action_of_any_run(risks: list[list[float]], update: _Update) -> None:
    weights = _Weights(3, update, horizon=20)
    for one in risks:
        weights.add(np.array(one))
        assert weights.excess_risk <= weights.risk_bound + 1e-9
        assert weights.alpha.sum() == pytest.approx(1.0)
        assert (weights.round_risk <= 1.0).all()


class Decreasing(_Weights):
    def gamma(self, t: int) -> float:
        return math.sqrt(2 * math.log(2) / t)


def test_the_printed_update_with_a_decreasing_rate_loses_all_the_time() -> None:
    excess: dict[_Update, list[tuple[float, float]]] = {update: [] for update in _Update}
    for update, rounds in product(_Update, (1000, 2000, 4000)):
        weights = Decreasing(2, update)
        # The first expert is without risk for a quarter of the rounds, the second one from then on.
        while weights.rounds < rounds:
            weights.add(np.array([0.0, 1.0] if weights.rounds < rounds / 4 else [1.0, 0.0]))
        excess[update].append((weights.excess_risk, weights.risk_bound))
    assert all(risk <= bound for risk, bound in excess[_Update.CUMULATIVE])
    assert all(risk > 5 * bound for risk, bound in excess[_Update.AS_PRINTED])
    # Linear: twice the rounds, twice the excess; the bound grows with the square root.
    first, second, third = (risk for risk, _ in excess[_Update.AS_PRINTED])
    assert second == pytest.approx(2 * first, rel=0.06)
    assert third == pytest.approx(2 * second, rel=0.05)


def test_a_round_ends_when_a_risk_passes_one() -> None:
    weights = _Weights(2)
    assert not weights.add(np.array([0.5, 0.2]))
    assert not weights.add(np.array([0.5, 0.2]))
    assert weights.alpha.tolist() == [0.5, 0.5]
    assert weights.add(np.array([0.1, 0.0]))
    assert weights.rounds == 1
    assert weights.round_risk.tolist() == [0.0, 0.0]
    assert weights.past_risk.tolist() == pytest.approx([1.1, 0.4])
    gamma = math.sqrt(2 * math.log(2))
    raised = np.exp([-gamma * 1.1, -gamma * 0.4])
    assert weights.alpha.tolist() == pytest.approx((raised / raised.sum()).tolist())


def test_the_mixture_counts_the_weights_of_the_time() -> None:
    weights = _Weights(2)
    weights.add(np.array([2.0, 0.0]))
    heavy = weights.alpha[1]
    weights.add(np.array([0.0, 0.5]))
    assert weights.mixture_risk == pytest.approx(1.0 + heavy * 0.5)
    assert weights.excess_risk == pytest.approx(weights.mixture_risk - 0.5)


@pytest.mark.parametrize("arguments", [(0,), (2, _Update.CUMULATIVE, 0)])
def test_senseless_numbers_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="both must be >= 1"):
        _Weights(*arguments)  # type: ignore[arg-type]
