"""procure: which servers to buy with a budget, and when a job will start."""
