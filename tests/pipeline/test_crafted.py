"""What a crafted set names leads into no other folder, and its copies are under the digest of what they are."""

import msgspec
import pytest

from recado.filters.syntax import parse_filter
from recado.model.subscription import Subscription
from recado.pipeline.errors import PipelineError
from recado.pipeline.locations import digest_of, keep, keep_copy
from recado.pipeline.partitioned.folder import MANIFEST, Manifest, Part, PartitionedSet, write_piece
from recado.pipeline.sets import ABOUT, INDEX, SubscriptionSet

OUTSIDE = ["..", "../../x", "/x", "a/../../x", "a\\x", "0" * 31, "0" * 32 + "\n", "A" * 32]


def test_a_version_with_the_digest_of_nothing_is_refused(tmp_path):
    known = SubscriptionSet(tmp_path)
    version = known.publish([Subscription("s", parse_filter("x > 1", "expression"))])
    about = known.path(version.number) / ABOUT
    for digest in OUTSIDE:
        about.write_bytes(msgspec.json.encode(msgspec.structs.replace(version, digest=digest)))
        with pytest.raises(PipelineError, match="is damaged"):
            known.current()
    about.write_bytes(msgspec.json.encode(msgspec.structs.replace(version, digest="")))
    assert known.current().digest == ""


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("digest", OUTSIDE),
        ("file", ["..", ".", "../../x.parquet", "/etc/x", "a/b.parquet", "x\n"]),
        ("router_digest", OUTSIDE),
    ],
)
def test_a_manifest_that_names_other_folders_is_refused(tmp_path, member, values):
    good = Manifest(1, 0, 0, ("x",), 1, (Part(0, 1, 1, 10, "0" * 32, "part-00000-1f.c000.snappy.parquet"),))
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(good))
    assert PartitionedSet(tmp_path).manifest == good
    for value in values:
        if member == "router_digest":
            bad = msgspec.structs.replace(good, router_digest=value)
        else:
            bad = msgspec.structs.replace(good, parts=(msgspec.structs.replace(good.parts[0], **{member: value}),))
        (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(bad))
        with pytest.raises(PipelineError, match="is damaged"):
            PartitionedSet(tmp_path)


def test_a_piece_of_another_file_is_written_nowhere(tmp_path):
    folder = tmp_path / "partition"
    folder.mkdir()
    for file, start in ((str(tmp_path / "x"), 0), ("../x", 0), ("x", 0), (INDEX, -1)):
        with pytest.raises(PipelineError, match="no file of a partition"):
            write_piece(folder, file, start, b"evil")
    write_piece(folder, INDEX, 0, b"good")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [INDEX]


def test_a_copy_under_the_digest_of_something_else_is_not_kept(tmp_path, monkeypatch):
    """It would be taken for the other one from then on."""
    copies = tmp_path / "copies"
    monkeypatch.setenv("RECADO_COPIES", str(copies))
    (tmp_path / "good").write_bytes(b"good")
    (tmp_path / "evil").write_bytes(b"evil")
    digest = digest_of(tmp_path / "good")
    with pytest.raises(PipelineError, match="not that of the digest"):
        keep_copy(digest, {"file": tmp_path / "evil"})
    assert list(copies.iterdir()) == []
    assert (keep_copy(digest, {"file": tmp_path / "good"}) / "file").read_bytes() == b"good"
    for wrong in ("", "..", *OUTSIDE):
        with pytest.raises(PipelineError, match="is no digest"):
            keep(wrong, lambda draft: None)
