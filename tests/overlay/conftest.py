import pytest


@pytest.fixture(autouse=True)
def own_runtime(tmp_path_factory, monkeypatch):
    """Control sockets and logs of a test in a folder of its own, with a short path."""
    folder = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("RECADO_RUNTIME", str(folder))
    return folder
