"""The IRMaSim paper: Figures 1 and 7 to 11."""

from papers.irmasim import figures

ARTIFACTS = (figures.ONE, figures.SEVEN, figures.EIGHT, figures.NINE, figures.TEN, figures.ELEVEN)
