"""Rank the next item of a user, by counts and recency: `NextItem`."""
