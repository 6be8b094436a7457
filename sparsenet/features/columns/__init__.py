"""Typed columns of tables as features: infer the types, learn each column, and encode rows."""
