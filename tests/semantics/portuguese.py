"""Which Portuguese lexicon tests use: a whole one where it is, else the sample beside this file.

The whole one is that of the Open Multilingual Wordnet: the file that ``RECADO_WORDNET_POR`` names, or
``shared/data/wordnet-por`` beside the checkout.
"""

import os
from pathlib import Path

SAMPLE = Path(__file__).with_name("por-sample.tab")
_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "wordnet-por" / "wn-data-por.tab"
_NAMED = os.environ.get("RECADO_WORDNET_POR")
WHOLE = Path(_NAMED) if _NAMED else _BESIDE if _BESIDE.is_file() else None
