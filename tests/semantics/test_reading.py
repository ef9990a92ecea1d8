"""From a name to its words."""

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from recado.errors import RecadoError
from recado.semantics.frequencies import Frequencies, weight
from recado.semantics.names import NameReader, plain_words


@pytest.fixture(scope="module")
def reader(lexicon):
    return NameReader(lexicon)


@pytest.mark.parametrize(
    ("name", "lemmas"),
    [
        ("salePrices", ["sale", "price"]),
        ("unit of measurement", ["unit", "measurement"]),
        ("meeting", ["meeting"]),
        ("sales", ["sale"]),
        ("went", ["go"]),
        ("air conditioners", ["air", "conditioner"]),
        ("CO2", ["co2"]),
        ("pm25", ["pm", "25"]),
        ("windspeed", ["wind", "speed"]),
        ("qwzxrt", ["qwzxrt"]),
        ("the", ["the"]),
        ("😀", []),
    ],
)
def test_lemmas(reader, name, lemmas):
    assert list(reader.read(name).lemmas) == lemmas


def test_a_word_has_its_part_senses_frequency_and_weight(reader, lexicon):
    (price,) = reader.read("prices").own
    assert (price.lemma, price.part, price.language, price.is_synonym) == ("price", "n", "eng", False)
    assert price.senses == lexicon.senses("price")
    assert price.frequency == sum(lexicon.tags("price")) > 0
    assert price.weight == weight(price.frequency, lexicon.tokens)
    assert 0 < price.weight < 1
    assert [reader.read(name).own[0].part for name in ("sell", "big", "quickly")] == ["v", "a", "r"]


def test_synonyms_of_the_first_sense_are_added_with_underscores(reader):
    found = reader.read("residential area")
    assert [word.lemma for word in found.synonyms] == ["country"]
    assert all(word.is_synonym for word in found.synonyms)
    assert "domestic_dog" in [word.lemma for word in reader.read("dog").synonyms]
    assert found.enriched == found.own + found.synonyms


def test_what_was_read_is_remembered(reader):
    assert reader.read("sale price") is reader.read("sale price")
    assert reader.read("salePrice").own == reader.read("sale price").own


def test_without_a_lexicon_there_are_tokens(reader):
    assert plain_words("salePrices of").lemmas == ("sale", "prices")
    assert plain_words("sale price").text == reader.read("sale price").text == "sale price"


# -- a table of frequencies --------------------------------------------------------------------------------------------


def write_table(folder, **about):
    rows = {"word": ["price", "prices", "sale"], "lemma": ["price", "price", "sale"], "count": [30, 12, 5]}
    folder.mkdir()
    (folder / "words.parquet").mkdir()
    parquet.write_table(pa.table(rows), folder / "words.parquet" / "part-0.parquet")
    content = {"format": "recado-frequencies-1", "tokens": 1000, "language": "en", **about}
    (folder / "frequencies.json").write_bytes(msgspec.json.encode(content))
    return folder


def test_frequencies_from_a_table(lexicon, tmp_path):
    table = Frequencies.load(write_table(tmp_path / "table"))
    assert (table.count("price"), table.count("sale"), table.count("other"), table.tokens) == (42, 5, 0, 1000)
    price, sale = NameReader(lexicon, table).read("price sale").own
    assert (price.frequency, sale.frequency) == (42, 5)
    assert price.weight == pytest.approx(1 - 3.7612 / 6.9088, abs=1e-4)


def test_weights():
    assert weight(0, 1000) == 1
    assert weight(1000, 1000) == 0
    assert weight(5, 0) == 1


@pytest.mark.parametrize("damage", ["missing", "format", "json", "parquet"])
def test_damaged_tables(tmp_path, damage):
    folder = write_table(tmp_path / "table")
    if damage == "missing":
        (folder / "frequencies.json").unlink()
    elif damage == "parquet":
        (folder / "words.parquet" / "part-0.parquet").write_bytes(b"PAR1 no")
    else:
        (folder / "frequencies.json").write_text('{"format": "other"}' if damage == "format" else "{")
    with pytest.raises(RecadoError, match="table of frequencies"):
        Frequencies.load(folder)
