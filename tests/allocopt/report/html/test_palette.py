"""Colours: enough contrast, and far enough apart for colour-blind eyes."""

from itertools import combinations

import numpy as np
import pytest

from allocopt.report.palette import DARK, LIGHT, N_COLOURS

# Machado, Oliveira and Fernandes, doi:10.1109/TVCG.2009.113, severity 1.
SEEN_BY = {
    "everyone": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# Linear RGB to cones, and these to a space in which distances are those that eyes see (Oklab).
TO_CONES = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
TO_LAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
MODES = {"light": LIGHT, "dark": DARK}


def linear(colour_code: str) -> np.ndarray:
    values = np.array([int(colour_code[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    first, second = sorted((float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


@pytest.mark.parametrize("mode", MODES)
def test_texts_and_shapes_stand_out(mode: str) -> None:
    colours = MODES[mode]
    for ground in ("surface", "raised"):
        assert contrast(colours["ink"], colours[ground]) >= 7
        assert contrast(colours["muted"], colours[ground]) >= 4.5
        assert contrast(colours["accent"], colours[ground]) >= 4.5
    for number in range(N_COLOURS):
        assert contrast(colours[f"c{number + 1}"], colours["surface"]) >= 3
        assert contrast(colours[f"c{number + 1}"], colours["on"]) >= 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_colours_of_jobs_stay_apart(mode: str, eyes: str) -> None:
    seen = {}
    for name in (f"c{number + 1}" for number in range(N_COLOURS)):
        rgb = np.clip(SEEN_BY[eyes] @ linear(MODES[mode][name]), 0, 1)
        seen[name] = TO_LAB @ np.cbrt(TO_CONES @ rgb)
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 0.06, f"{one} and {other}"


def test_no_colour_has_two_roles() -> None:
    assert len(set(LIGHT.values())) == len(LIGHT)
