"""What the super-node document measured, measured again."""
