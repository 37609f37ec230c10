"""How good is a ranking? Hits, precision, regret; many workloads at once; the bootstrap."""
