"""Colours of pages and figures by role, for a light and a dark surface.

The eight colours of jobs and lines were chosen so that colour-blind readers, too, can tell any two of them apart, and
that each has a contrast of at least 3:1 to its surface (WCAG 2.2, 1.4.11).
"""

# By role, on a light and on a dark surface: c1 to c8 are for jobs and lines, s1 (little) to s5 (much) for shares.
_COLOURS = {
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#59616c", "#a3abb6"),
    "line": ("#d9dde2", "#343a42"),
    "grid": ("#e8ebee", "#2a2f36"),
    "surface": ("#ffffff", "#15181c"),
    "raised": ("#f6f7f9", "#1d2126"),
    "accent": ("#0b62a4", "#74b8ee"),
    "on": ("#fdfdfe", "#0f1113"),
    "idle": ("#e9edf1", "#272c33"),
    "taken": ("#b9c1cb", "#4b535e"),
    "c1": ("#2866b6", "#75b7f3"),
    "c2": ("#ae5f31", "#ff8100"),
    "c3": ("#00867d", "#57d0c4"),
    "c4": ("#950b65", "#d66ebd"),
    "c5": ("#b6850a", "#eaba5d"),
    "c6": ("#3b8ff4", "#6ce0f6"),
    "c7": ("#41308e", "#978ff0"),
    "c8": ("#74936a", "#b4a290"),
    "s1": ("#dfeaf4", "#1b2c3b"),
    "s2": ("#b3d0e8", "#23476a"),
    "s3": ("#7aafd8", "#2f6c9e"),
    "s4": ("#3d86c1", "#4f9cd6"),
    "s5": ("#0a5590", "#9bd0f7"),
}
LIGHT = {role: colour for role, (colour, _) in _COLOURS.items()}
DARK = {role: colour for role, (_, colour) in _COLOURS.items()}
N_COLOURS, N_STEPS = 8, 5
