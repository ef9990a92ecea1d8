"""Codes of languages: ISO 639-3 names a wordnet, ISO 639-1 names a lemmatiser; either is accepted everywhere."""

from __future__ import annotations

_ALPHA2 = {
    "als": "sq", "arb": "ar", "bul": "bg", "cat": "ca", "cmn": "zh", "dan": "da", "deu": "de", "ell": "el",
    "eng": "en", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi", "fra": "fr", "gle": "ga", "glg": "gl",
    "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id", "isl": "is", "ita": "it",
    "jpn": "ja", "kat": "ka", "lav": "lv", "lit": "lt", "mkd": "mk", "nld": "nl", "nno": "nn", "nob": "nb",
    "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv",
    "tha": "th", "tur": "tr", "ukr": "uk", "zsm": "ms",
}  # fmt: skip
_ALPHA3 = {short: long for long, short in _ALPHA2.items()}


def alpha3(code: str) -> str:
    """``por`` for ``pt`` and for ``por``; an unknown code is left as it is."""
    lower = code.strip().lower()
    return _ALPHA3.get(lower, lower)


def alpha2(code: str) -> str:
    """``pt`` for ``por`` and for ``pt``; an unknown code is left as it is."""
    lower = code.strip().lower()
    return _ALPHA2.get(lower, lower)
