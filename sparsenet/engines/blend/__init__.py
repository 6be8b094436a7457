"""A network, a tree and neighbors combined: propose candidates, score them, combine."""
