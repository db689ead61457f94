"""Settings of the algorithms, named as Stable-Baselines3 names them; needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all algorithms have in common."""

    n_steps: int = 16  # Steps of every environment between two updates
    learning_rate: float = 1e-3  # Of Adam, at the start; it falls linearly to a twentieth at the end
    gamma: float = 1.0  # Discount of rewards, per step
    max_grad_norm: float = 0.5  # Norm that gradients are cut at


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSettings(Settings):
    """Settings of the policy gradient without a critic, ``ent_coef`` the weight of the policy's entropy."""

    ent_coef: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class A2cSettings(Settings):
    """Settings of A2C: one gradient step per update."""

    # Weights of the policy's entropy, and of the critic's squared error
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    gae_lambda: float = 1.0  # Decay of the generalized advantage estimate; 1 for sums of rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings(A2cSettings):
    """Settings of PPO."""

    learning_rate: float = 1.5e-3
    gae_lambda: float = 0.95
    # Passes over the steps of an update; where steps are cheap, new ones teach more than a second pass
    n_epochs: int = 1
    batch_size: int = 512  # Samples of one gradient step
    clip_range: float = 0.2  # How far the ratio of new to old probability may count, away from 1
    final_ent_coef: float = 0.005  # Weight of the entropy at the end; it moves linearly


@dataclass(frozen=True, slots=True, kw_only=True)
class DqlSettings(Settings):
    """Settings of deep Q-learning: the probability of a random action, multiplied by a decay at every update."""

    exploration_initial_eps: float = 1.0
    exploration_decay: float = 0.995
    exploration_final_eps: float = 0.0
