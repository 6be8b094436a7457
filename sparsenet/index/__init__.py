"""Maximum inner product search: exact, or approximate by hashing."""
