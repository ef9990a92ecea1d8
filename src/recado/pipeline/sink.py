"""Exactly once into Parquet: a folder with one subfolder for each micro-batch.

    out/batch=0/part-….parquet    out/batch=1/…

A micro-batch is written aside and appears by one rename, so a reader of any kind sees all of it or nothing. Its number
is its identity: after a crash Spark runs the unfinished micro-batch again under the same number, and what is there
already is not written again. Unlike the list of files that Spark's own file sink keeps, this needs nothing of a reader.
The folder must be on a file system with an atomic rename that the driver mounts, as local disks and NFS are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from recado.pipeline.errors import PipelineError

_STAGING = "_staging"  # readers skip names that begin with an underscore


class BatchFolder:
    """A folder of micro-batches."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()

    def path(self, batch: int) -> Path:
        return self.folder / f"batch={batch}"

    def has(self, batch: int) -> bool:
        return self.path(batch).is_dir()

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch that is not there yet; how many rows it has."""
        staged = self.folder / _STAGING / f"batch={batch}"
        shutil.rmtree(staged, ignore_errors=True)  # of an attempt that was cut off
        try:
            staged.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{self.folder} cannot be written: {error.strerror}") from None
        rows.write.parquet(str(staged))
        files = sorted(staged.glob("*.parquet"))
        for path in [*files, staged]:
            _sync(path)
        count = sum(int(pq.read_metadata(path).num_rows) for path in files)
        staged.rename(self.path(batch))
        _sync(self.folder)
        return count


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
