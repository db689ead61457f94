"""Seeds that evaluations own: no training may see their windows."""

from allocopt.errors import UsageError

RESERVED = {11: "instances/paper.jsonl", 12: "instances/repo.jsonl", 13: "instances/burst.jsonl"}
"""Seeds of the shipped windows, as `instances/generate.sh` passes them to ``allocopt generate``."""


def check_training_seed(seed: int) -> None:
    """Raise `UsageError` for a negative seed and for one whose windows evaluations use.

    A training draws its workloads from its seed in the same way as ``allocopt generate windows --seed``.
    """
    if seed < 0:
        raise UsageError(f"the seed is {seed}, must not be negative")
    if seed in RESERVED:
        raise UsageError(f"seed {seed} is reserved for evaluation: it makes the windows of {RESERVED[seed]}")
