"""From texts to rows of hashed features."""
