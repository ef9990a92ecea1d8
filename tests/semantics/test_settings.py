"""The member ``semantic`` of a subscription."""

import msgspec
import pytest

from recado.errors import SubscriptionError
from recado.semantics.settings import SemanticSettings, read_settings


def test_none_is_exact_and_empty_is_the_default():
    assert read_settings(None) is None
    assert read_settings({}) == SemanticSettings()
    own = SemanticSettings("mean", {"mode": "all"}, 0.2, unmatched="ignore")
    assert read_settings({}, own) == own


def test_members_win_over_the_default():
    own = SemanticSettings("mean", {"mode": "all"}, 0.2, unmatched="ignore")
    assert read_settings({"threshold": 0.5}, own) == SemanticSettings("mean", {"mode": "all"}, 0.5, unmatched="ignore")
    # options and threshold of another measure mean nothing
    assert read_settings({"measure": "feng"}, own) == SemanticSettings("feng", unmatched="ignore")


def test_everything_can_be_said():
    said = {
        "measure": "mean",
        "options": {"word": "lin", "mode": "all"},
        "threshold": 0,
        "unmatched": "ignore",
        "assignment": "one-to-one",
        "language": ["en", "pt"],
        "envelope": True,
        "values": "string",
        "margin": 0.1,
        "rename": True,
        "explain": True,
        "value_threshold": 0.4,
        "vetoes": False,
    }
    settings = read_settings(said)
    assert settings.languages == ("eng", "por")
    assert msgspec.structs.asdict(settings) == {n: v for n, v in said.items() if n != "language"} | {
        "languages": ("eng", "por")
    }
    assert hash(settings) == hash(read_settings(said))


@pytest.mark.parametrize(
    ("measure", "options", "limit"),
    [
        ("hybrid", {}, 0.31),
        ("mean", {}, 0.24),
        ("mean", {"word": "wup"}, 0.78),
        ("mean", {"mode": "all"}, 0.19),
        ("feng", {}, 0.25),
        ("feng", {"word": "lin"}, 0.58),
        ("levenshtein", {}, 0.34),
    ],
)
def test_each_measure_has_its_own_threshold(measure, options, limit):
    assert SemanticSettings(measure, options).limit == limit
    assert SemanticSettings(measure, options, 0.0).limit == 0


@pytest.mark.parametrize(
    ("semantic", "message"),
    [
        ([], r"^\$\.semantic: must be an object"),
        ({"treshold": 0.5}, r"^\$\.semantic\.treshold: there is no such member; did you mean 'threshold'\?"),
        ({"x": 0.5}, r"there are measure, options"),
        ({"threshold": 1.5}, r"^\$\.semantic\.threshold: must be a number from 0 to 1, not 1\.5"),
        ({"threshold": True}, "must be a number"),
        ({"threshold": float("nan")}, "must be a number"),
        ({"measure": "meen"}, r"^\$\.semantic\.measure: there is no measure 'meen'; did you mean 'mean'"),
        ({"measure": []}, r"^\$\.semantic\.measure: there is no measure \[\]; there are hybrid"),
        ({"measure": 5}, r"^\$\.semantic\.measure: "),
        ({"options": "word"}, r"^\$\.semantic\.options: must be an object"),
        ({"options": {"wrd": "jcn"}}, r"^\$\.semantic\.options\.wrd: the measure 'hybrid' has no such option; it has"),
        ({"measure": "jaro", "options": {"a": 1}}, "it has none"),
        ({"options": {"word": ["jcn"]}}, r"options\.word: must be a text or a number"),
        ({"unmatched": "drop"}, r"unmatched: must be fail or ignore, not 'drop'"),
        ({"assignment": []}, "must be best or one-to-one"),
        ({"language": []}, "must be a language"),
        ({"language": ["english"]}, "'english' is not a code of ISO 639"),
        ({"language": 3}, "must be a language"),
        ({"envelope": 1}, "must be true or false"),
        ({"values": "exact"}, "must be semantic or string"),
    ],
)
def test_errors_name_the_place(semantic, message):
    with pytest.raises(SubscriptionError, match=message):
        read_settings(semantic)
