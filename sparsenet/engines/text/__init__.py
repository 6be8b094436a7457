"""Models of raw texts: a linear model or a network over the features of texts."""
