"""Raw texts in, labels out."""
