"""The super-node document, again."""
