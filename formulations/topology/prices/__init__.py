"""A bound of FREE for windows of any size: parts of groups have prices, equal groups share theirs."""
