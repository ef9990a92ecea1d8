"""Sentence vectors from the model all-MiniLM-L6-v2, computed without a framework.

``model`` finds the installed package, reads its weights and word pieces, and remembers vectors; ``encoder`` runs the
six layers, and is loaded with the first text.
"""
