"""Models of tables: linear, boosting, tree, network and blend, chosen on held-out rows."""
