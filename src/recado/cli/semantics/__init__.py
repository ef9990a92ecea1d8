"""``recado semantics``: what names mean, shown to a person."""
