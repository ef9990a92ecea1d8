"""Where things are kept, and that a file is written whole or not at all."""

from pathlib import Path

import pytest

from recado.errors import RecadoError
from recado.semantics.files import cache_folder, data_folder, read_limited, write_whole


def test_the_environment_decides(monkeypatch, tmp_path):
    monkeypatch.delenv("RECADO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_DATA_HOME", "/d")
    assert (cache_folder(), data_folder()) == (Path("/c/recado"), Path("/d/recado"))
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/ana")
    assert data_folder() == Path("/home/ana/.local/share/recado")
    monkeypatch.setenv("RECADO_DATA", "/elsewhere")
    assert data_folder() == Path("/elsewhere")


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "folder" / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [child.name for child in path.parent.iterdir()] == ["file"]
    path.unlink()
    path.mkdir()
    with pytest.raises(RecadoError, match="file: cannot be written"):
        write_whole(path, b"three")
    assert [child.name for child in path.parent.iterdir()] == ["file"]


def test_reading_is_limited(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_limited(path, 5, "it") == b"12345"
    with pytest.raises(RecadoError, match="it is larger than 4 bytes"):
        read_limited(path, 4, "it")
    with pytest.raises(RecadoError, match="it cannot be read"):
        read_limited(tmp_path, 4, "it")
