"""Layers, output, losses, optimizers, samplers and the training loop of a network."""
