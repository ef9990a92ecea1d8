"""What names and texts mean."""
