"""The version of Recado, apart, so that any room can name it."""

__version__ = "0.1.0"
