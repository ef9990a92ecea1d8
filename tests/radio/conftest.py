import pytest


@pytest.fixture(autouse=True, scope="module")
def own_runtime(tmp_path_factory):
    """Sockets, state and logs of a module's scenes in a folder of its own, with a short path."""
    folder = tmp_path_factory.mktemp("r")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECADO_RUNTIME", str(folder))
        yield folder


def pytest_collection_modifyitems(items):
    """Scenes have many processes: one after another, whatever the number of workers."""
    for item in items:
        if "tests/radio/" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("radio"))
