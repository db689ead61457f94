"""ASAX: CPU quotas of guests, chosen by expert trees whose weights are learned (ASAX paper, section 3)."""
