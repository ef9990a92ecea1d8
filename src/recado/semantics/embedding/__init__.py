"""Sentence vectors from the model all-MiniLM-L6-v2, computed without a framework.

``safetensors`` reads the weights, ``wordpiece`` cuts a text into the model's pieces, ``encoder`` runs its six layers
with ``product``, ``model`` finds the installed package and remembers vectors.
"""
