"""Finding the vectors of the largest products: exactly, or by hashing."""
