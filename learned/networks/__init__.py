"""Networks: their layers, their files, and how torch builds them."""
