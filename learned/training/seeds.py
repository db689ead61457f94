"""Seeds that evaluations own: no training may see their windows."""

from allocopt.errors import UsageError

RESERVED = {11: "instances/paper.jsonl", 12: "instances/repo.jsonl", 13: "instances/burst.jsonl"}
"""Seeds of the shipped windows, as `instances/generate.sh` passes them to ``allocopt generate``."""


LARGEST_SEED = 2**63 - 1
"""What every generator of random numbers takes, torch's among them."""


def check_training_seed(seed: int) -> None:
    """Raise `UsageError` for a seed out of range and for one whose windows evaluations use.

    A training draws its workloads from its seed in the same way as ``allocopt generate windows --seed``.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"the seed is {seed}, must be within 0 .. {LARGEST_SEED}")
    if seed in RESERVED:
        raise UsageError(f"seed {seed} is reserved for evaluation: it makes the windows of {RESERVED[seed]}")
