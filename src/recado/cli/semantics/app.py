"""The group ``recado semantics`` and its verbs."""

from __future__ import annotations

from recado.cli.verb import verb

_HELP = """\
  recado semantics explain "sale price" "price" "country"
  recado semantics align '{sale price, GT, 50}' '{"product": "book", "price": 60}'
  recado semantics add-language por wn-data-por.tab
  recado semantics review --accept "sale price" "price"
"""

app = verb("semantics", epilogue=_HELP)
_PLACE = "recado.cli.semantics"
app.command(f"{_PLACE}.explain:explain", name="explain", help="Show how alike names are, by several measures.")
app.command(f"{_PLACE}.explain:words", name="words", help="Show the words of a name and what is known of them.")
app.command(f"{_PLACE}.explain:measures", name="measures", help="List the measures, their options and thresholds.")
app.command(f"{_PLACE}.align:align", name="align", help="Match an event with a subscription that uses other words.")
app.command(f"{_PLACE}.languages:add_language", name="add-language", help="Add a language to the lexicon.")
app.command(f"{_PLACE}.languages:languages", name="languages", help="List the languages that names can be in.")
app.command(f"{_PLACE}.review:review", name="review", help="Look at uncertain pairs of names, accept or refuse them.")
