"""Other languages: what is imported, what is refused, and how names of several languages meet."""

import pytest

from recado.errors import RecadoError
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.lexicon import languages
from recado.semantics.lexicon.languages import add_language, installed, load_language
from recado.semantics.names import NameReader
from recado.semantics.settings import SemanticSettings
from semantics.portuguese import SAMPLE, WHOLE

JCN = SemanticSettings("mean", languages=("eng", "por"))


@pytest.fixture
def reader(data, lexicon):
    add_language("pt", SAMPLE, lexicon)
    return NameReader(lexicon)


def test_a_sample_is_imported(data, lexicon):
    assert installed() == []
    found = add_language("por", SAMPLE, lexicon)
    assert (found.language, found.words, found.concepts, found.unknown) == ("por", 8, 9, 1)
    assert installed() == ["por"]
    language = load_language("pt")
    assert len(language) == 8
    assert language.senses("umidade") == lexicon.senses("humidity")
    assert language.find("valor_médio") == "valor_médio"
    assert language.find("preco") == "preço"
    assert language.find("nada") is None


def test_senses_stand_in_the_order_of_english_use(data, lexicon):
    add_language("por", SAMPLE, lexicon)
    first, second = load_language("por").senses("preço")
    assert lexicon.concept_tags[first] >= lexicon.concept_tags[second]


def test_names_of_two_languages_meet(reader):
    semantics = Semantics()
    assert semantics.similarity("umidade", "humidity", JCN) == 1
    assert semantics.similarity("preço de venda", "salePrice", JCN) == 1
    assert semantics.similarity("precoDeVenda", "sale price", JCN) == 1
    assert semantics.similarity("umidade", "price", JCN) < 0.2
    assert semantics.similarity("umidade", "humidity", SemanticSettings("mean")) == 0


def test_a_cache_of_another_edition_of_a_language_is_not_asked(data, lexicon, tmp_path):
    add_language("por", SAMPLE, lexicon)
    before = Semantics(cache=SimilarityCache())
    assert before.similarity("venda", "sale", JCN) == 1
    before.cache.save(tmp_path / "similarities", before.digest)
    other = tmp_path / "other.tab"
    other.write_text("00001740-n\tlemma\tvenda\n")
    add_language("por", other, lexicon)
    after = Semantics(cache=SimilarityCache())
    assert after.cache.load(tmp_path / "similarities", after.digest) == 1
    assert after.similarity("venda", "sale", JCN) < 1
    assert (after.cache.hits, after.scope(SemanticSettings("mean"))) == (0, before.scope(SemanticSettings("mean")))


def test_the_language_that_knows_most_of_a_name_is_its_own(reader):
    both = ("en", "pt")
    assert {words.language for words in reader.readings("data", both)} == {"eng", "por"}
    assert reader.read("data da venda", both).language == "por"
    assert reader.readings("data", ("pt", "en")) == reader.readings("data", both)
    assert [word.language for word in reader.read("venda total", both).own] == ["por", "eng"]
    assert reader.read("umidade", both).english == "humidity"
    assert reader.read("preços", both).own[0].senses == reader.read("preço", both).own[0].senses


def test_a_language_without_lemmas_still_has_words(data, lexicon, tmp_path):
    file = tmp_path / "xho.tab"
    file.write_text("14535643-n\tlemma\tumswakama\n")
    add_language("xho", file, lexicon)
    assert NameReader(lexicon).read("umswakama", ("xho",)).own[0].senses == lexicon.senses("humidity")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("14535643-n\tlemma\n", r"bad\.tab:1: expected a concept, a sort and a word"),
        ("14535643-n\tlemma\ta\n145-n\tlemma\tb\n", r"bad\.tab:2: expected"),
        ("14535643-n\tlemma\t \n", r"bad\.tab:1: a word must have between 1 and 256 bytes"),
        ("14535643-n\tlemma\t" + "x" * 300 + "\n", r"bad\.tab:1: a word must have"),
        ("# x\tspa\ty\tz\n", r"bad\.tab:1: the file says it is of the language 'spa', not 'por'"),
        ("99999999-n\tlemma\tx\n", "has no word for a concept"),
        ("", "has no word for a concept"),
        ("14535643-n\tlemma\t" + "x" * 70_000, r"bad\.tab:1: a word must have"),
    ],
)
def test_wrong_files_are_refused_with_their_line(data, lexicon, tmp_path, text, message):
    file = tmp_path / "bad.tab"
    file.write_text(text)
    with pytest.raises(RecadoError, match=message):
        add_language("por", file, lexicon)
    assert installed() == []


def test_limits(data, lexicon, tmp_path, monkeypatch):
    monkeypatch.setattr(languages, "LINES", 3)
    with pytest.raises(RecadoError, match=r":4: there are more than 3 lines"):
        add_language("por", SAMPLE, lexicon)
    monkeypatch.setattr(languages, "FILE_BYTES", 10)
    with pytest.raises(RecadoError, match="larger than 10 bytes"):
        add_language("por", SAMPLE, lexicon)
    bad = tmp_path / "bad.tab"
    bad.write_bytes(b"14535643-n\tlemma\t\xff\n")
    monkeypatch.undo()
    with pytest.raises(RecadoError, match="1: is not UTF-8"):
        add_language("por", bad, lexicon)
    with pytest.raises(RecadoError, match="No such file"):
        add_language("por", tmp_path / "none", lexicon)


@pytest.mark.parametrize("code", ["eng", "en", "p", "portuguese", "../x", ""])
def test_codes_that_cannot_be_added(data, lexicon, code):
    with pytest.raises(RecadoError, match="cannot be added"):
        add_language(code, SAMPLE, lexicon)


def test_a_damaged_or_missing_language(data, reader):
    (data / "languages" / "por.arrays").write_bytes(b"damaged")
    with pytest.raises(RecadoError, match="add it again with: recado semantics add-language"):
        load_language("por")
    with pytest.raises(RecadoError, match="'fra' is not there; add it with"):
        reader.read("prix", ("fra",))
    with pytest.raises(RecadoError, match="'fra' is not there; add it with"):
        Semantics().prepare(SemanticSettings("mean", languages=("eng", "fra")))
    Semantics().prepare()


@pytest.mark.skipif(WHOLE is None, reason="RECADO_WORDNET_POR names no file, and there is none beside the checkout")
def test_the_whole_portuguese_wordnet(data, lexicon):
    found = add_language("por", WHOLE, lexicon)
    assert found.words > 40_000
    semantics = Semantics()
    assert semantics.similarity("umidade", "humidity", JCN) == 1
    assert semantics.align(["umidade", "temperatura"], ["temperature", "humidity"], JCN).mapping() == {
        "umidade": "humidity",
        "temperatura": "temperature",
    }
    for order in (("eng", "por"), ("por", "eng")):  # whatever their order
        both = SemanticSettings("mean", languages=order)
        assert semantics.align(["nome", "preço"], ["name", "price"], both).mapping() == {
            "nome": "name",
            "preço": "price",
        }


@pytest.mark.parametrize(
    ("asked", "said", "is_same"),
    [
        ("velocidade_vento", "velocidade", True),  # a table has both words in English; the name is Portuguese yet
        ("velocidade_vento", "vento", False),
        ("velocidade_vento_kmh", "wind speed", True),
        ("nome_cliente", "nome", True),
        ("wind_velocidade", "velocidade", True),
    ],
)
@pytest.mark.skipif(WHOLE is None, reason="there is no whole Portuguese lexicon")
def test_what_a_name_is_about_depends_on_its_language(data, lexicon, asked, said, is_same):
    add_language("pt", WHOLE, lexicon)
    for one, other in ((asked, said), (said, asked)):
        assert bool(Semantics().align([one], [other], JCN).mapping()) == is_same


@pytest.mark.skipif(WHOLE is None, reason="there is no whole Portuguese lexicon")
def test_an_english_name_that_ends_with_a_word_of_two_languages_is_english(data, lexicon):
    add_language("pt", WHOLE, lexicon)
    assert Semantics().align(["customer"], ["customer_email"], JCN).mapping() == {}
    assert Semantics().align(["email do cliente"], ["customer_email"], JCN).mapping()
