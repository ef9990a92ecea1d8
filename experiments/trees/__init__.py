"""The experiment on subscription trees: chapters 4 and 5 of the tree document."""
