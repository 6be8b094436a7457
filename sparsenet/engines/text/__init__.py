"""Train and query models of raw texts: a linear model or a network over text features."""
