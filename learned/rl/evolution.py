"""Learning by an evolution strategy, CMA-ES, with new random cases in every generation."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from cmaes import SepCMA

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError

AVERAGED = 40  # a new generation has weight 1 / 40 in the running mean of the numbers


class EvolutionLearner(ABC):
    """Evolves numbers by CMA-ES with a diagonal covariance (Ros and Hansen, PPSN 2008, 10.1007/978-3-540-87700-4_30).

    An update (`allocopt.learned.rl.workers.Learner`) is a generation.

    Parameters
    ----------
    first
        The initial numbers, scaled so that the same ``sigma`` suits all of them.
    population
        Number of candidates of a generation.
    sigma
        Standard deviation of the first candidates.
    rng
        Source of randomness.
    """

    def __init__(self, first: FloatArray, population: int, sigma: float, rng: np.random.Generator) -> None:
        self._population, self._rng = population, rng
        self._strategy = SepCMA(first, sigma, seed=0, population_size=population)
        self._generations = 0
        self._average = first.copy()

    @abstractmethod
    def losses(self, candidates: Sequence[FloatArray]) -> FloatArray:
        """Return the loss of each candidate on new cases, shape ``(candidates, cases)``; all get the same cases."""

    @property
    def parameters(self) -> FloatArray:
        """Mean of the candidates, averaged over the last generations, because each generation has other cases."""
        return self._average.copy()

    def update(self, share: float) -> dict[str, float]:
        """Evaluate the candidates of a generation, and update the strategy."""
        strategy = self._strategy
        strategy.reseed_rng(int(self._rng.integers(2**32)))
        candidates = [strategy.ask() for _ in range(self._population)]
        losses = self.losses(candidates).mean(axis=1)
        if not np.isfinite(losses).all():
            raise UsageError("the training diverged: a loss is not finite; try a smaller sigma")
        strategy.tell(list(zip(candidates, losses.tolist(), strict=True)))
        self._generations += 1
        self._average += (strategy.mean - self._average) * max(1 / self._generations, 1 / AVERAGED)
        samples = float(self._generations * self._population)
        return {"samples": samples, "mean_return": -float(losses.mean()), "best_return": -float(losses.min())}

    def snapshot(self) -> dict[str, Any]:
        """Return the state that changes."""
        strategy = self._strategy.__getstate__()
        return {
            # Checkpoints cannot hold numpy's scalars.
            "strategy": {name: one.item() if isinstance(one, np.generic) else one for name, one in strategy.items()},
            "rng": self._rng.bit_generator.state,
            "generations": self._generations,
            "average": self._average.copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the state of a snapshot."""
        self._strategy.__setstate__(snapshot["strategy"])
        self._rng.bit_generator.state = snapshot["rng"]
        self._generations, self._average = snapshot["generations"], snapshot["average"].copy()
