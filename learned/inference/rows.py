"""The paper's network of DRAS without torch, one decision at a time.

The first dense layer of a large machine has far more weights than a decision can read in time. But idle nodes, and the
nodes of one job, look alike, so that the rows of the nodes come in runs of equal ones. With ``C[r]`` the sum of the
weights of the first ``r`` nodes, a run of rows ``a .. b - 1`` of value ``v`` adds ``v (C[b] - C[a])``; so one row of C
is read per run instead of one row of weights per node. Where all nodes differ, nothing is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import Float32Array
from learned.inference.networks import LEAK, ROWS_PER_JOB, PaperNetwork, check_weights


@dataclass(frozen=True, slots=True, eq=False)
class RowNetwork:
    """The weights of a network as `outputs` takes them.

    Parameters
    ----------
    network
        Its sizes.
    filter_weight, filter_bias
        Of the convolution, shapes ``(2,)`` and ``(1,)``.
    job_weights
        Of the first layer, for the rows of jobs, shape ``(2 jobs, first)``.
    node_sums
        Sums of the first layer's weights for the rows of the first nodes, shape ``(nodes + 1, first)``.
    second, output, output_bias
        Of the layers that follow, transposed: shapes ``(first, second)``, ``(second, outputs)`` and ``(outputs,)``.
    """

    network: PaperNetwork
    filter_weight: Float32Array
    filter_bias: Float32Array
    job_weights: Float32Array
    node_sums: Float32Array
    second: Float32Array
    output: Float32Array
    output_bias: Float32Array

    @classmethod
    def of(cls, network: PaperNetwork, weights: Mapping[str, Float32Array]) -> "RowNetwork":
        """Arrange weights.

        Raises
        ------
        ValueError
            If one is missing, or has another shape.
        """
        check_weights(network.shapes(), dict(weights))
        first = weights["first.weight"].T
        n_job_rows = ROWS_PER_JOB * network.jobs
        sums = np.zeros((network.nodes + 1, network.first), dtype=np.float32)
        total = np.zeros(network.first)
        for row in range(network.nodes):
            total += first[n_job_rows + row]
            sums[row + 1] = total
        return cls(
            network,
            weights["filter.weight"][0].copy(),
            weights["filter.bias"],
            np.ascontiguousarray(first[:n_job_rows]),
            sums,
            np.ascontiguousarray(weights["second.weight"].T),
            np.ascontiguousarray(weights["output.weight"].T),
            weights["output.bias"],
        )

    def outputs(self, state: Float32Array) -> Float32Array:
        """Return the outputs for one state.

        Parameters
        ----------
        state
            Rows of jobs and of nodes, shape ``(rows, 2)``.
        """
        rows = state @ self.filter_weight + self.filter_bias
        n_job_rows = ROWS_PER_JOB * self.network.jobs
        first = rows[:n_job_rows] @ self.job_weights + self._of_nodes(rows[n_job_rows:])
        return self._rest(np.asarray(first, dtype=np.float32))

    def job_values(self, state: Float32Array, n_jobs: int) -> Float32Array:
        """Return the values of the first jobs of a window by a network of one job.

        Parameters
        ----------
        state
            Rows of W jobs and of nodes, shape ``(2 W + nodes, 2)``.
        n_jobs
            How many jobs to value; the others' rows are not looked at.

        Returns
        -------
        Float32Array
            Shape ``(n_jobs,)``.
        """
        of_nodes = self._of_nodes(state[-self.network.nodes :] @ self.filter_weight + self.filter_bias)
        jobs = state[: ROWS_PER_JOB * n_jobs] @ self.filter_weight + self.filter_bias
        first = jobs.reshape(n_jobs, ROWS_PER_JOB) @ self.job_weights
        return np.asarray(self._rest(np.asarray(first + of_nodes, dtype=np.float32))[:, 0])

    def _of_nodes(self, rows: Float32Array) -> Float32Array:
        """Return what the nodes add to the first layer."""
        ends = np.append(np.flatnonzero(rows[1:] != rows[:-1]) + 1, len(rows))
        values = np.append(rows[ends - 1], np.float32(0.0))
        return np.asarray((values[:-1] - values[1:]) @ self.node_sums[ends])

    def _rest(self, first: Float32Array) -> Float32Array:
        """Apply what follows the first layer's sums."""
        second = leaky(first) @ self.second
        return np.asarray(leaky(second) @ self.output + self.output_bias)


def leaky(values: Float32Array) -> Float32Array:
    """Apply the leaky rectifier in place."""
    np.maximum(values, values * np.float32(LEAK), out=values)
    return values
