"""The networks of CuSH have the published sizes, and act without torch as with it."""

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import Machine
from allocopt.envs.cush.observation import FIRST_TRAIT
from learned.cush.policies import LearnedPolicies
from learned.rl.slots import CompactNetwork

torch = pytest.importorskip("torch")

from learned.cush.learner import CompactModule, ImageModule, PolicyModule  # noqa: E402
from learned.rl.networks import weights_of  # noqa: E402

COMPACT = CompactNetwork(FIRST_TRAIT + 3, critic=0)


def n_learned(module: "torch.nn.Module") -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("machine", "number"),
    [(Machine.of("sierra"), 294_966), (Machine.of("summit"), 393_270), (Machine.of("sierra", 16), 36_918)],
)
def test_the_published_job_selector_has_this_many_parameters(machine: Machine, number: int) -> None:
    module = ImageModule(5, 5, machine.units)
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    assert shapes == {
        "filters.weight": (16, 6, 2, 2),
        "filters.bias": (16,),
        "norm.weight": (16,),
        "norm.bias": (16,),
        "output.weight": (6, 16 * 4 * (machine.units - 1)),
        "output.bias": (6,),
    }
    assert n_learned(module) == number


def test_the_published_job_selector_is_a_convolution_a_rectifier_a_normalization_and_a_dense_layer() -> None:
    module = ImageModule(queue=2, horizon=3, units=6)
    with torch.no_grad():
        module.norm.running_mean.copy_(torch.linspace(0.0, 1.0, 16))
        module.norm.running_var.copy_(torch.linspace(0.5, 2.0, 16))
    image = np.random.default_rng(0).random((1, 3, 3, 6), dtype=np.float32)
    filters, bias = (weights_of(module)[f"filters.{name}"] for name in ("weight", "bias"))
    found = np.zeros((16, 2, 5))
    for row in range(2):
        for column in range(5):
            patch = image[0, :, row : row + 2, column : column + 2]
            found[:, row, column] = np.maximum((filters * patch).sum(axis=(1, 2, 3)) + bias, 0.0)
    mean, variance = np.linspace(0.0, 1.0, 16), np.linspace(0.5, 2.0, 16)
    normal = (found - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    weight, last = (weights_of(module)[f"output.{name}"] for name in ("weight", "bias"))
    with torch.no_grad():
        logits = module(torch.from_numpy(image)).numpy()
    np.testing.assert_allclose(logits[0], weight @ normal.ravel() + last, rtol=1e-4, atol=1e-5)


def test_running_statistics_move_where_it_learns_and_stay_where_it_acts() -> None:
    module = ImageModule(queue=2, horizon=3, units=6)
    images = torch.rand((4, 3, 3, 6))
    before = module.norm.running_mean.clone()
    with torch.no_grad():
        module(images)
    assert torch.equal(module.norm.running_mean, before)
    module(images)
    assert not torch.equal(module.norm.running_mean, before)


def test_the_policy_selector_has_ten_hidden_neurons() -> None:
    module = PolicyModule(3)
    assert {name: tuple(values.shape) for name, values in module.named_parameters()} == {
        "0.weight": (10, 6),
        "0.bias": (10,),
        "2.weight": (2, 10),
        "2.bias": (2,),
    }
    assert n_learned(module) == 92


def test_the_compact_job_selector_has_the_same_size_for_every_machine_and_queue() -> None:
    assert n_learned(CompactModule(COMPACT)) == 1_729


def test_both_selectors_act_without_torch_by_the_probabilities_of_their_modules() -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((5000, 6, FIRST_TRAIT + 3), dtype=np.float32)
    seen[:] = seen[0]
    legal = np.ones((5000, 6), dtype=np.bool_)
    legal[:, 2] = False
    module = CompactModule(COMPACT)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0)
        logits = module(module.states(seen[:1], legal[:1]))
    chances = torch.softmax(logits, 1)[0].numpy()
    drawn = module.acting().choose(seen, legal, rng.random(5000))
    np.testing.assert_allclose(np.bincount(drawn, minlength=6) / 5000, chances, atol=0.03)
    assert chances[2] == 0
    assert (module.acting().choose(seen, legal) == chances.argmax()).all()


def test_the_policy_selector_draws_by_the_probabilities_of_its_module() -> None:
    rng = np.random.default_rng(0)
    module = PolicyModule(3)
    jobs = np.repeat(rng.random((2, 6), dtype=np.float32), 5000, axis=0)
    with torch.no_grad():
        chances = torch.softmax(3 * module(torch.from_numpy(jobs[[0, 5000]])), 1).numpy()
        module[2].weight.mul_(3.0)
        module[2].bias.mul_(3.0)
    drawn = module.acting().choose(jobs, np.zeros((10_000, 2)), rng.random(10_000))
    np.testing.assert_allclose([drawn[:5000].mean(), drawn[5000:].mean()], chances[:, 1], atol=0.03)


def test_an_image_selector_draws_legal_choices_by_their_probabilities() -> None:
    module = ImageModule(queue=2, horizon=2, units=6)
    images = np.zeros((5000, 3, 2, 6), dtype=np.float32)
    legal = np.tile([True, False, True], (5000, 1))
    chosen = module.choose(images, legal, np.random.default_rng(0).random(5000))
    with torch.no_grad():
        logits = module(torch.from_numpy(images[:1]))[0, [0, 2]]
    assert set(chosen.tolist()) == {0, 2}
    assert (chosen == 0).mean() == pytest.approx(float(torch.softmax(logits, 0)[0]), abs=0.03)
    assert (module.choose(images[:2], legal[:2], np.array([0.0, 1.0])) == [0, 2]).all()


def test_parameters_of_another_shape_are_refused() -> None:
    weights = weights_of(PolicyModule(3))
    with pytest.raises(ValueError, match=r"'2\.bias' is missing"):
        LearnedPolicies({name: values for name, values in weights.items() if name != "2.bias"})
