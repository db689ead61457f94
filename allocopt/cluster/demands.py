"""Demands in the words of Slurm that are not modelled: parts of GPUs, generic resources other than GPUs, licenses."""

import re

_GPU_PART = re.compile(r"(?:^|,)\s*(?:gres[:/])?(shard|mps)(?=[:=,(]|$)", re.ASCII)
_OTHER = re.compile(r"(?:^|,)\s*(?:(gres|license|bb|ic)[:/])(?!(?:gpu|shard|mps)\b)([^:=,(\s]+)", re.ASCII)


def gpu_parts(text: str) -> tuple[str, ...]:
    """Return the kinds of parts of GPUs in a list of TRES or of gres, such as ``gres/shard``, each once.

    A job that asks for a part of a GPU must not run where there is none: `Request` takes them as ``unmodelled``.
    """
    return tuple(dict.fromkeys(f"gres/{match[1]}" for match in _GPU_PART.finditer(text)))


def other_demands(text: str) -> tuple[str, ...]:
    """Return what else a list of TRES or of gres has beside cores, memory, nodes and GPUs: ``license/matlab``.

    Jobs are placed as if they did not ask for it.
    """
    return tuple(dict.fromkeys(f"{match[1]}/{match[2]}" for match in _OTHER.finditer(text)))
