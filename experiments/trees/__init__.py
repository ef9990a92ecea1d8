"""The experiment on subscription trees: sections 4.3 to 4.7 of the tree document."""
