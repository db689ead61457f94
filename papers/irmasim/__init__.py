"""The IRMaSim paper: Figures 1 and 7 to 11."""

from papers.irmasim import convergence, figures

ARTIFACTS = (figures.ONE, figures.SEVEN, figures.EIGHT, figures.NINE, convergence.TEN, convergence.ELEVEN)
