"""A bound of FREE for windows of any size, by prices of parts of groups; similar groups share prices."""
