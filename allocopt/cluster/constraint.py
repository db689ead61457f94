"""Constraints on the features of nodes, as ``sbatch --constraint`` takes them.

``|`` binds as tightly as ``&`` and both apply from left to right, as in Slurm; parentheses group. A list in brackets,
``[rack1|rack2]``, asks that all nodes of the job have the same one of its features (sbatch(1), matching OR).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from allocopt.errors import InvalidProblemError
from allocopt.files.faults import shown

_TOKEN = re.compile(r"\s*([&,|()\[\]]|!?[^\s&,|()\[\]!*]+(?:\*\d+)?)")
MOST_ALTERNATIVES = 1000  # of a constraint, each a set of features, beyond which it is refused


@dataclass(frozen=True, slots=True)
class Constraint:
    """Features that nodes of a job must have.

    Parameters
    ----------
    text
        The expression, as it was written.
    groups
        Alternatives of which all nodes of the job take the same one; each is a set of alternatives of which every node
        has at least one, a set of features that the node has all of.
    """

    text: str
    groups: tuple[frozenset[frozenset[str]], ...]

    @classmethod
    def parse(cls, text: str) -> "Constraint":
        """Parse an expression; raise `InvalidProblemError` for what is none, or counts nodes (``a*2``)."""
        tokens: list[str] = []
        at, stripped = 0, text.strip().strip("\"'")
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise _fault(text, f"holds {shown(stripped[at:].strip())}")
            tokens.append({",": "&"}.get(match[1], match[1]))
            at = match.end()
        if counted := next((token for token in tokens if "*" in token), None):
            raise _fault(text, f"counts nodes in {shown(counted)}, which is not supported")
        groups, rest = _parsed(tokens, text)
        if rest:
            raise _fault(text, f"has {shown(rest[0])} behind its end")
        return cls(text, tuple(groups))

    def holds(self, features: Collection[str]) -> tuple[bool, ...]:
        """Whether a node with some features may be used, by the alternatives that all nodes must share."""
        return tuple(any(needed <= set(features) for needed in group) for group in self.groups)


def _parsed(tokens: list[str], text: str) -> tuple[list[frozenset[frozenset[str]]], list[str]]:
    groups, tokens = _operand(tokens, text)
    while tokens and tokens[0] in "&|":
        sign, *tokens = tokens
        other, tokens = _operand(tokens, text)
        if sign == "&":
            groups = [frozenset(one | two for one in mine for two in theirs) for mine in groups for theirs in other]
        elif len(groups) == len(other) == 1:
            groups = [groups[0] | other[0]]
        else:
            raise _fault(text, "has a list in brackets beside |, must be beside & or alone")
        if sum(map(len, groups)) > MOST_ALTERNATIVES:
            raise _fault(text, f"has more than {MOST_ALTERNATIVES} alternatives")
    return groups, tokens


def _operand(tokens: list[str], text: str) -> tuple[list[frozenset[frozenset[str]]], list[str]]:
    if not tokens:
        raise _fault(text, "ends where a feature must follow")
    first, *tokens = tokens
    if first in "([":
        groups, tokens = _parsed(tokens, text)
        if tokens[:1] != [{"(": ")", "[": "]"}[first]]:
            raise _fault(text, f"has a {first} that is not closed")
        if first == "[":
            # Any of what the list names, but the same for all nodes.
            groups = [frozenset({one}) for group in groups for one in sorted(group, key=sorted)]
        return groups, tokens[1:]
    if first in "&|)]" or first.startswith("!"):
        raise _fault(text, f"has {shown(first)} where a feature must stand")
    return [frozenset({frozenset({first})})], tokens


def _fault(text: str, fault: str) -> InvalidProblemError:
    return InvalidProblemError("constraint", f"{shown(text)} {fault}")
