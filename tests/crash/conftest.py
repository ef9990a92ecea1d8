import pytest

from crash.services import Service, Zygote


@pytest.fixture(scope="session")
def zygote(tmp_path_factory):
    output = tmp_path_factory.mktemp("zygote") / "output"
    made = Zygote(output)
    yield made
    made.close()
    said = output.read_text()
    assert "Traceback" not in said, said


@pytest.fixture
def service(tmp_path, zygote):
    made = Service(tmp_path / "service", zygote)
    yield made
    if made.pid:
        made.kill()
