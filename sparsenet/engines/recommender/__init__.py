"""Recommend items from a log of interactions."""
