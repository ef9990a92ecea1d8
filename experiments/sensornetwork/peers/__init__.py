"""AODV and PAMPA beside ns-2 and ns-3, on the same placement and traffic (outline 15)."""
