"""Predict links by a temporal graph network: `TemporalLinkPredictor`."""
