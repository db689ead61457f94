"""Fast allocators without a proof."""
