"""Co-allocation to proof: an assignment for one guest a host, a binary program for several."""
