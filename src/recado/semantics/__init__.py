"""What names and texts mean: subscriptions that reach events with other names (the semantics document, 3 to 5).

A subscriber writes ``{sale price, GT, 50}``; an event says ``price``. Names become words (lemmas with their WordNet
senses), a *name measure* says how alike two names are, from 0 to 1, and an *alignment* gives each name of a filter the
attribute that stands for it. The filter is then rewritten with the event's own names and evaluated as any other.

The parts, each in its module; nothing is read from disk before it is needed::

    names        tokens and lemmas of a text; Word, Words; NameReader(lexicon, frequencies).read(name, languages)
    tables       abbreviations, and groups of words that exclude each other: shipped_tables(), NameTables.extend(added)
    units        units in names and values: take_unit(tokens), convert(source, target), Reading.read(value)
    vetoes       what speaks against a pair of names, whatever a measure says: Vetoes.object(a, b) -> Objection | None
    mapping      map_names(semantics, names, attributes) -> Mapping: candidates for a person to decide about
    plugins      strategies, converters and call-backs, by entry point or register(name, function)
    lexicon      information.load_lexicon() -> Lexicon, WordNet 3.0; load_information(lexicon, "semcor");
                 languages.add_language(code, file, lexicon), languages.installed()
    frequencies  Frequencies.load(folder): what ``recado pipeline frequencies`` wrote
    embedding    sentence vectors of the installed model
    measures     measure_names(), register(name, factory);
                 a NameMeasure has key, similarity(a: Words, b: Words) -> float and
                 matrix(a: Sequence[Words], b: Sequence[Words]) -> float64 array, one row for each of ``a``
    settings     SemanticSettings(measure="hybrid", options={}, threshold=None, unmatched="fail", assignment="best",
                 languages=("eng",), envelope=False, values="semantic", margin=0.05, rename=False, explain=False,
                 value_threshold=None, vetoes=True)
                 read_settings(subscription.semantic, default) -> SemanticSettings | None
    engine       Semantics(data, frequencies, overrides, decided, cache): prepare, words, measure, similarity,
                 similarities, align; shared() is the process's own;
                 get_measure("mean", word="jcn", mode="best") -> NameMeasure;
                 align(constraint_names, attribute_names, settings, semantics=None) -> Alignment;
                 Knowledge(default, given, decided, frequencies, similarities): read(files), semantics()
    alignment    Alignment(pairs, measure, threshold, unmatched): mapping(), missing(), uncertain(margin);
                 Pair(constraint, attribute, similarity, reason, words, attribute_words, nearest): explain();
                 constraint_names(filter), rewrite(filter, alignment) -> Filter,
                 rename_event(event, alignment) -> Event
    match        semantic_match(event, subscription, settings=None, semantics=None, default) -> Match | None: the plain
                 oracle; attribute_names(event), resolve(filter, event, settings, semantics) -> Filter decides SM
    matcher      SemanticMatcher(semantics, default): exact and semantic subscriptions at the speed of the index;
                 add, add_many, remove, match, match_many, explain(event, id), renamed(event, id)
    cache        SimilarityCache(entries): get, put, save(path, digest), load(path, digest)
    overrides    Overrides.load(path): similarities that people gave, of words or of names;
                 ReviewList.load(): uncertain pairs, accepted and refused ones; decided() goes into Semantics
    files        the folders of this machine, files that are written whole, arrays in a file

Every number a measure gives is rounded to nine decimals, does not depend on which other names were asked for in the
same call, and is the same with or without the cache.
"""
