"""The filter language: several syntaxes, one tree, one meaning."""
