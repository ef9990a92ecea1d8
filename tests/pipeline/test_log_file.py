"""What is written among everybody's temporary files is this user's alone, and no link leads elsewhere."""

import os
import stat

import pytest

from recado.pipeline import locations, session
from recado.pipeline.errors import PipelineError


@pytest.fixture(autouse=True)
def shared(tmp_path, monkeypatch):
    """A temporary folder that everybody shares."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session.log_file.cache_clear()
    yield tmp_path
    session.forget_log()


def test_the_file_is_in_a_folder_that_nobody_else_may_enter(shared):
    with session._errors_to_log():
        pass
    path = session.log_file()
    assert path.parent.parent == shared
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_link_in_its_place_is_not_followed(shared):
    target = shared / "target"
    target.write_text("of somebody else")
    session.log_file().symlink_to(target)
    with pytest.raises(OSError), session._errors_to_log():  # its number differs by system
        pass
    assert target.read_text() == "of somebody else"


@pytest.mark.parametrize("how", ["link", "open to all"])
def test_copies_are_kept_in_no_folder_that_somebody_else_prepared(shared, monkeypatch, how):
    monkeypatch.delenv("RECADO_COPIES", raising=False)
    place = shared / f"recado-copies-{os.getuid()}"
    if how == "link":
        (shared / "target").mkdir()
        place.symlink_to(shared / "target")
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(PipelineError, match="RECADO_COPIES"):
        locations.copies_folder()
    place.unlink() if how == "link" else place.rmdir()
    assert stat.S_IMODE(locations.copies_folder().stat().st_mode) == 0o700
