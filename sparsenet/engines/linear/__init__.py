"""Train one-vs-rest linear text models by dual coordinate descent."""
