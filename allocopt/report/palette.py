"""Colours of pages and figures, in light and in dark; a figure names a colour by its role.

The eight colours of jobs and lines were searched for so that any two of them stay apart for colour-blind eyes too, and
each has at least three times the contrast to the surface that it stands on (WCAG 2.2, 1.4.11).
"""

LIGHT = {
    "ink": "#1b1f24",
    "muted": "#59616c",
    "line": "#d9dde2",
    "grid": "#e8ebee",
    "surface": "#ffffff",
    "raised": "#f6f7f9",
    "accent": "#0b62a4",
    "on": "#fdfdfe",
    "idle": "#e9edf1",
    "taken": "#b9c1cb",
    "c1": "#2866b6",
    "c2": "#ae5f31",
    "c3": "#00867d",
    "c4": "#950b65",
    "c5": "#b6850a",
    "c6": "#3b8ff4",
    "c7": "#41308e",
    "c8": "#74936a",
    "s1": "#dfeaf4",
    "s2": "#b3d0e8",
    "s3": "#7aafd8",
    "s4": "#3d86c1",
    "s5": "#0a5590",
}
"""Colours on a light surface, by role: c1 to c8 for jobs and lines, s1 to s5 from little to much."""

DARK = {
    "ink": "#e8eaed",
    "muted": "#a3abb6",
    "line": "#343a42",
    "grid": "#2a2f36",
    "surface": "#15181c",
    "raised": "#1d2126",
    "accent": "#74b8ee",
    "on": "#0f1113",
    "idle": "#272c33",
    "taken": "#4b535e",
    "c1": "#75b7f3",
    "c2": "#ff8100",
    "c3": "#57d0c4",
    "c4": "#d66ebd",
    "c5": "#eaba5d",
    "c6": "#6ce0f6",
    "c7": "#978ff0",
    "c8": "#b4a290",
    "s1": "#1b2c3b",
    "s2": "#23476a",
    "s3": "#2f6c9e",
    "s4": "#4f9cd6",
    "s5": "#9bd0f7",
}
"""The same roles on a dark surface."""

N_COLOURS = 8
N_STEPS = 5
