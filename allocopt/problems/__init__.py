"""The problems: immutable, validated once when made."""
