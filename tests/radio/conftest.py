import pytest


@pytest.fixture(autouse=True, scope="module")
def own_runtime(tmp_path_factory):
    """Sockets, state and logs of a module's scenes in a folder of its own, with a short path."""
    folder = tmp_path_factory.mktemp("r")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECADO_RUNTIME", str(folder))
        yield folder
