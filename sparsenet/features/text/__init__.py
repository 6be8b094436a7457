"""Turn texts into rows of hashed features."""
