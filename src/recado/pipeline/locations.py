"""A path that may be a URL: a local ``Path``, or a place on any file system that Spark reaches.

``locate`` tells them apart. A ``HadoopPath`` has the part of pathlib's interface that the pipeline uses and raises
OSError where that does, so most code does not ask which of the two it has. It speaks to Hadoop's FileSystem in the
driver's JVM, so it needs a session that runs there: with Spark Connect, only DataFrames are read and written at URLs.

Executors have no such session. What they need of a URL is copied to the driver's host and sent with the job;
``keep_copy`` puts it under the name of its content into a folder that all Python workers of a host share, so that they
map the same pages.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from recado import files
from recado.pipeline.errors import PipelineError, explained

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
_ATOMIC = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "abfs", "abfss", "file")
"""File systems on which a folder is renamed in one step. Object stores copy what is in it, piece by piece."""
_FORGOTTEN_SECONDS = 7 * 24 * 3600.0


def locate(path: str | os.PathLike[str] | HadoopPath) -> Location:
    """The absolute local path, or the URL; ``file:/…`` is a local path."""
    if isinstance(path, HadoopPath):
        return path
    text = os.fspath(path)
    scheme = _URL.match(text)
    if scheme is None:
        return Path(text).absolute()
    if scheme["scheme"].lower() == "file":
        return Path("/" + text.partition(":")[2].lstrip("/"))
    return HadoopPath(text)


class HadoopPath:
    """A place on a file system that Spark reaches by a URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"HadoopPath({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(f"{self._url}/{name}")

    def __reduce__(self) -> tuple[type[HadoopPath], tuple[str]]:
        return HadoopPath, (self._url,)

    @property
    def name(self) -> str:
        return self._url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def parent(self) -> HadoopPath:
        return HadoopPath(self._url.rpartition("/")[0])

    @property
    def has_atomic_rename(self) -> bool:
        return self._url.partition(":")[0].lower() in _ATOMIC

    def exists(self) -> bool:
        return bool(self._ask("exists"))

    def is_dir(self) -> bool:
        status = self._status()
        return status is not None and bool(status.isDirectory())

    def is_file(self) -> bool:
        status = self._status()
        return status is not None and not status.isDirectory()

    def size(self) -> int:
        """In bytes."""
        return int(self._ask("getFileStatus").getLen())

    def iterdir(self) -> Iterator[HadoopPath]:
        """What is in a folder, by name."""
        return iter(sorted((self / str(found.getPath().getName()) for found in self._ask("listStatus")), key=str))

    def glob(self, pattern: str) -> Iterator[HadoopPath]:
        """What Hadoop finds for a pattern below this folder."""
        return iter((self / pattern).matches())

    def matches(self) -> list[HadoopPath]:
        """What the URL means as a pattern of Hadoop's, in the order of names."""
        found = self._ask("globStatus")
        return sorted((HadoopPath(str(one.getPath().toString())) for one in found or ()), key=str)

    def read_bytes(self, most: int | None = None) -> bytes:
        """The whole file, or its beginning."""
        stream = self._ask("open")
        try:
            return bytes(self._call(stream.readAllBytes) if most is None else self._call(stream.readNBytes, most))
        finally:
            stream.close()

    def write_bytes(self, content: bytes, *, new: bool = False) -> None:
        """Write a file, in place of an older one; FileExistsError if it is to be ``new`` and one is there."""
        stream = self._ask("create", not new)
        try:
            self._call(stream.write, bytearray(content))
        finally:
            self._call(stream.close)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the folder and those above it."""
        del parents, exist_ok  # Hadoop knows no other way
        self._ask("mkdirs")

    def rename(self, target: HadoopPath) -> None:
        """Give a file or folder another name, which must not be there."""
        if target.exists() or not self._ask("rename", target._path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))

    def remove(self) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        self._ask("delete", True)

    def fetch(self, target: Path) -> None:
        """Copy the file to a local path."""
        self._ask("copyToLocalFile", self._jvm_path(f"file://{target.absolute()}"), True, before=(False,))

    def put(self, source: Path) -> None:
        """Copy a local file here, in place of an older one."""
        local = self._jvm_path(f"file://{source.absolute()}")
        self._call(self._file_system.copyFromLocalFile, False, True, local, self._path)

    @cached_property
    def _path(self) -> Any:
        return self._jvm_path(self._url)

    @cached_property
    def _file_system(self) -> Any:
        context = _driver(self._url)
        return self._call(self._path.getFileSystem, context._jsc.hadoopConfiguration())  # noqa: SLF001  # no other way

    def _jvm_path(self, url: str) -> Any:
        jvm: Any = _driver(self._url)._jvm  # noqa: SLF001  # PySpark has no public way
        return jvm.org.apache.hadoop.fs.Path(url)

    def _status(self) -> Any:
        try:
            return self._ask("getFileStatus")
        except FileNotFoundError:
            return None

    def _ask(self, method: str, *arguments: Any, before: tuple[Any, ...] = ()) -> Any:
        return self._call(getattr(self._file_system, method), *before, self._path, *arguments)

    def _call(self, method: Any, *arguments: Any) -> Any:
        """Call Java; an OSError where it throws one of its own."""
        try:
            return method(*arguments)
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getSimpleName())
            reason = str(error.java_exception.getMessage() or kind).partition("\n")[0]
            if kind in ("FileNotFoundException", "NoSuchFileException"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._url) from None
            if kind == "FileAlreadyExistsException":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._url) from None
            if told := explained(error, missing_only=True):
                raise PipelineError(f"{self._url}: {told}") from None
            raise OSError(errno.EIO, reason, self._url) from None


Location = Path | HadoopPath


def _driver(url: str) -> SparkContext:
    context = SparkContext._active_spark_context  # noqa: SLF001  # PySpark has no public way to ask without making one
    if context is None:
        raise PipelineError(
            f"{url} is reached through Spark's Java process, and this process has none: it needs a session on a master "
            "(with Spark Connect, give a path that the client and the server mount)"
        )
    return context


def for_spark(path: Location) -> str:
    """The path as Spark is to read it: a local one as a URL too, since Spark's own default may be another system."""
    return f"file://{path}" if isinstance(path, Path) else str(path)


def literal(path: Location) -> str:
    """The path as Spark is to read it, in which nothing is taken for a pattern."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", for_spark(path))


def remove_tree(path: Location) -> None:
    """Remove a folder, if it is there."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.remove()


def remove_file(path: Location) -> None:
    """Remove a file, if it is there."""
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.remove()


def write_file(path: Location, content: bytes) -> None:
    """Write a file as a whole, with the folders above it: whoever reads sees the old content or the new one."""
    if isinstance(path, HadoopPath):
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, content)


# --- Copies on this host, by content ---------------------------------------------------------------------------------


DIGEST = r"\A([0-9a-f]{32})?\Z"
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=DIGEST)]
"""One that was read from somewhere: copies are named after it, so it is nothing else; "" is none."""
FileName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A([0-9A-Za-z][0-9A-Za-z._=-]*)?\Z")]
"""The name of a file, likewise: it leads into no other folder; "" is none."""


def digest_of(*paths: Path) -> str:
    """The content of some files in few characters."""
    digest = blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def copies_folder() -> Path:
    """Where this user's copies are: ``RECADO_COPIES``, or a folder among the temporary files."""
    given = os.environ.get("RECADO_COPIES")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"recado-copies-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.lstat()
    if not given and (about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o022):
        raise PipelineError(
            f"{folder} belongs to somebody else, is a link, or may be written by others; remove it, or set "
            "RECADO_COPIES to a folder of your own"
        )
    return folder


def keep_copy(digest: str, sources: Mapping[str, Path | HadoopPath]) -> Path:
    """A folder with copies of the files under the names given, made unless this host has it; old ones are removed."""

    def copy(draft: Path) -> None:
        for name, source in sources.items():
            if isinstance(source, HadoopPath):
                source.fetch(draft / name)
            else:
                link(source, draft / name)

    return keep(digest, copy, *sources)


def keep(digest: str, fill: Callable[[Path], None], *names: str) -> Path:
    """The folder of that content on this host, which ``fill`` fills unless it is there; old ones are removed.

    A PipelineError if the digest is that of other files than those of these ``names``: whoever asks for it next would
    get them.
    """
    if not digest or not re.fullmatch(DIGEST, digest):
        raise PipelineError(f"{digest[:80]!r} is no digest; whatever names it is damaged")
    folder = copies_folder() / digest
    if folder.is_dir():
        with suppress(OSError):
            os.utime(folder)
        return folder
    draft = Path(tempfile.mkdtemp(prefix=f".{digest}-", dir=folder.parent))
    try:
        fill(draft)
        if names and digest_of(*(draft / name for name in names)) != digest:
            raise PipelineError(f"{', '.join(names)}: the content is not that of the digest {digest}; publish it again")
        with suppress(OSError):  # another worker was faster
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _forget_old(folder.parent)
    return folder


def link(source: Path, target: Path) -> None:
    """The file under another name; a copy where that is on another file system."""
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _forget_old(folder: Path) -> None:
    oldest = time.time() - _FORGOTTEN_SECONDS
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
