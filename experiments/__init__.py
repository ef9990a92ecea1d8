"""Experiments: what a document published, set beside what the code does. One folder a document."""
