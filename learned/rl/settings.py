"""Settings of the algorithms, named as Stable-Baselines3 names them; needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all algorithms have in common.

    Parameters
    ----------
    n_steps
        Steps of every environment between two updates.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth at the end.
    gamma
        Discount of rewards, per step.
    max_grad_norm
        Norm that gradients are cut at.
    """

    n_steps: int = 16
    learning_rate: float = 1e-3
    gamma: float = 1.0
    max_grad_norm: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSettings(Settings):
    """Settings of the policy gradient without a critic, ``ent_coef`` the weight of the policy's entropy."""

    ent_coef: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class A2cSettings(Settings):
    """Settings of A2C: one gradient step per update.

    Parameters
    ----------
    ent_coef, vf_coef
        Weights of the policy's entropy, and of the critic's squared error.
    gae_lambda
        Decay of the generalized advantage estimate; 1 for sums of rewards.
    """

    ent_coef: float = 0.01
    vf_coef: float = 0.5
    gae_lambda: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings(A2cSettings):
    """Settings of PPO.

    Parameters
    ----------
    n_epochs
        Passes over the steps of an update; where steps are cheap, new ones teach more than a second pass.
    batch_size
        Samples of one gradient step.
    clip_range
        How far the ratio of new to old probability may count, away from 1.
    final_ent_coef
        Weight of the entropy at the end; it moves linearly.
    """

    learning_rate: float = 1.5e-3
    gae_lambda: float = 0.95
    n_epochs: int = 1
    batch_size: int = 512
    clip_range: float = 0.2
    final_ent_coef: float = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class DqlSettings(Settings):
    """Settings of deep Q-learning: the probability of a random action, multiplied by a decay at every update."""

    exploration_initial_eps: float = 1.0
    exploration_decay: float = 0.995
    exploration_final_eps: float = 0.0
