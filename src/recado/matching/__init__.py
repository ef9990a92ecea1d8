"""Which subscriptions does an event satisfy? A plain oracle, a compiled index, and batches."""
