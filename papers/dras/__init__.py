"""The DRAS paper: Figures 5 to 11, Table 4."""

from papers.dras import curves, figures, waits

ARTIFACTS = (curves.FIVE, curves.SIX, figures.SEVEN, waits.EIGHT, waits.NINE, waits.TABLE, waits.TEN, figures.ELEVEN)
