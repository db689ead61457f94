"""A step of the policy gradient is the same however its choices are divided, and goes the way of the advantages."""

import numpy as np
import pytest

from allocopt.errors import UsageError

torch = pytest.importorskip("torch")

from learned.rl.algorithms import Choices, PolicyGradient, _policy_loss  # noqa: E402


def choices(n: int = 12, seed: int = 0) -> Choices:
    rng = np.random.default_rng(seed)
    legal = np.ones((n, 3), dtype=np.bool_)
    legal[::2, 1] = False
    states = torch.from_numpy(rng.normal(size=(n, 4)).astype(np.float32))
    actions = torch.from_numpy(np.where(rng.random(n) < 0.5, 0, 2))
    return Choices(states, torch.from_numpy(legal), actions, torch.from_numpy(rng.normal(size=n)).float())


def part(whole: Choices, some: slice) -> Choices:
    return Choices(whole.states[some], whole.legal[some], whole.actions[some], whole.advantages[some])


def learner(optimizer: str = "rmsprop", rate: float = 1e-2) -> PolicyGradient:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PolicyGradient(torch.nn.Linear(4, 3), rate, optimizer, 1.0, float("inf"))  # type: ignore[arg-type]


def test_choices_in_batches_make_the_step_of_all_of_them_together() -> None:
    whole, one, other = choices(), learner(), learner()
    entropies = one.improve([whole], 0.1), other.improve([part(whole, slice(0, 5)), part(whole, slice(5, 12))], 0.1)
    assert entropies[0] == pytest.approx(entropies[1], rel=1e-5)
    torch.testing.assert_close(one.actor.weight, other.actor.weight)


def test_the_gradient_is_that_of_the_probabilities_times_the_advantages() -> None:
    whole, one = choices(), learner()
    weight = one.actor.weight.detach().clone()
    loss = _policy_loss(one.actor, whole, 0.0)[0].item()
    with torch.no_grad():
        logits = (whole.states @ weight.T + one.actor.bias).masked_fill(~whole.legal, -torch.inf)
        chosen = torch.log_softmax(logits, 1)[torch.arange(12), whole.actions]
    assert loss == pytest.approx(float(-(chosen * whole.advantages).mean()), rel=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_what_was_better_than_expected_becomes_more_probable(optimizer: str) -> None:
    whole, one = choices(1), learner(optimizer)
    for sign in (1.0, -1.0):
        told = Choices(whole.states, whole.legal, whole.actions, torch.tensor([sign]))
        before = _policy_loss(one.actor, told, 0.0)[0].item()
        one.improve([told], 0.0)
        assert _policy_loss(one.actor, told, 0.0)[0].item() < before


def test_the_rate_falls_to_the_share_that_was_asked_for() -> None:
    one = PolicyGradient(torch.nn.Linear(4, 3), 1e-2, "adam", 0.25, 1.0)
    assert [one.set_rate(share) for share in (0.0, 0.5, 1.0)] == pytest.approx([1e-2, 6.25e-3, 2.5e-3])


def test_a_training_that_diverges_is_told() -> None:
    whole = choices()
    told = Choices(whole.states, whole.legal, whole.actions, torch.full((12,), float("nan")))
    with pytest.raises(UsageError, match="diverged"):
        learner().improve([told], 0.0)
