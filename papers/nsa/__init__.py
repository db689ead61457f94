"""The NSA paper: Tables III and IV, Figures 4 to 6."""

from papers.nsa import figures, tables

ARTIFACTS = (tables.THREE, tables.FOUR, figures.FOUR, figures.FIVE, figures.SIX)
