"""Linear machines in a tree of labels: its shape, its machines and the beam search."""
