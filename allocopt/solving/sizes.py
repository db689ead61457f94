"""Sizes as refusals state them."""

LARGEST_FLOAT_EXPONENT = 300


def rounded(number: int) -> str:
    """Write a whole number of any size with three digits; beyond the range of a float, as more than a power of ten."""
    if number > 10**LARGEST_FLOAT_EXPONENT:
        return f"more than 1e{LARGEST_FLOAT_EXPONENT}"
    return f"{number:,}" if number < 1_000_000 else f"{number:.3g}"
