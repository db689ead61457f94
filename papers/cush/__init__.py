"""The CuSH paper: Table 1, Figures 4 to 8."""

from papers.cush import figures

ARTIFACTS = (figures.FOUR, figures.FIVE, figures.SIX, figures.SEVEN, figures.EIGHT, figures.ONE)
