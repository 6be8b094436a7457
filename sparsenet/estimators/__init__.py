"""The scikit-learn classifiers, one a file, and `load`."""
