"""From raw data to rows: labels, scaling, texts."""
