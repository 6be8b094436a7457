"""Gradient boosting for tables: scikit-learn grows the trees, and flat arrays of our own answer."""
