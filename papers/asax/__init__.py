"""The ASAX paper: Tables 2 and 3, Figure 3."""

from papers.asax import tables

ARTIFACTS = (tables.TWO, tables.THREE, tables.FIGURE_THREE)
