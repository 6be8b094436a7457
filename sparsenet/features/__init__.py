"""Turn raw data into rows: labels, scaling, text."""
