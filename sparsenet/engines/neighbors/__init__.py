"""The training points as a model: the nearest of them vote."""
