"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 node`` or ``1,000 nodes``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
