"""What stands against a service, before it starts or while it runs: one finding for each thing that was looked at.

Nothing is changed but for a file that is written to the data folder and removed, to see whether the disk takes it. A
finding is ``ok``, a ``warning`` (the service runs, and somebody should know), or ``wrong`` (it does not start, or does
not do what it promises), and then says what to do. A service may run on the folder meanwhile; its ports count as its
own if the process that has the control socket holds them.
"""

from __future__ import annotations

import errno
import logging
import os
import shlex
import socket
import ssl
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.matching.kernels import cache
from recado.server.config import Config, ConfigError, Http
from recado.server.control import service_pid
from recado.server.listener import check_key
from recado.server.server import FolderError, check_config, check_folder, check_private, listeners
from recado.server.sip import EMBEDDED
from recado.server.storage import LITTLE_BYTES

DAY = 86_400.0
EXPIRES_SOON_DAYS = 14
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""No machine that runs this version has an earlier time."""
AHEAD_SECONDS = 60.0
"""So far may a file's time be ahead of the clock: file systems of other hosts have clocks of their own."""
SLOW_SYNC_SECONDS = 0.1
CLOCK_SECONDS = 0.05
PROBE_FILE = "doctor-probe"
RENEW = "renew it, and send the service SIGHUP"
_NOT_YET_VALID = 9  # a verification code of OpenSSL
_FILES_NAMED = 3


class Finding(msgspec.Struct, frozen=True):
    """``check`` is what was looked at, ``found`` how it is, ``advice`` what to do about it; empty if nothing."""

    check: str
    state: Literal["ok", "warning", "wrong"]
    found: str
    advice: str = ""


async def examine(config: Config) -> list[Finding]:
    """Everything, in the order in which it is to be mended."""
    folder = Path(config.data)
    return [
        *await check_configuration(config),
        *check_data(folder),
        *check_disk(folder, config.log.retain_bytes),
        *check_clock(folder),
        *check_kernels(),
        *check_ports(config),
        *check_certificates(config),
    ]


# --- configuration ---------------------------------------------------------------------------------------------------


class _Warnings(logging.Handler):
    """What the service would have written to its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def check_configuration(config: Config) -> list[Finding]:
    """What ``recado serve --check-config`` says, its warnings included."""
    heard, log = _Warnings(), logging.getLogger("recado")
    propagate, log.propagate = log.propagate, False
    log.addHandler(heard)
    try:
        with suppress(FolderError):  # the last thing that is looked at; the data folder has findings of its own
            await check_config(config)
        result = Finding("configuration", "ok", "a service can start with it")
    except RecadoError as error:
        result = Finding("configuration", "wrong", str(error), "change what it names; recado serve does not start so")
    finally:
        log.removeHandler(heard)
        log.propagate = propagate
    return [result, *(Finding("configuration", "warning", text) for text in heard.texts)]


# --- data folder and disk --------------------------------------------------------------------------------------------


def check_data(folder: Path) -> Iterator[Finding]:
    """Is the folder there, and its owner's alone, with all that is in it?"""
    name = "data folder"
    try:
        check_folder(folder)
        if not folder.exists():
            yield Finding(name, "ok", f"{folder} is not there yet; recado serve makes it")
            return
        check_private(folder)
        owner = folder.stat().st_uid
        found = sorted(_files_in(folder))
    except (RecadoError, OSError) as error:
        yield Finding(name, "wrong", str(error), "" if "chmod" in str(error) else "name another folder with --data")
        return
    quoted = shlex.quote(str(folder))
    if foreign := [path for path, about in found if about.st_uid != owner]:
        advice = f"chown -R {owner} {quoted}, and run recado as that user"
        yield Finding(name, "wrong", f"{_some(foreign)}: not of the folder's owner, user {owner}", advice)
    elif owner != os.geteuid() and os.geteuid() != 0:
        yield Finding(name, "wrong", f"{folder} belongs to user {owner}", "run recado as that user")
    elif public := [path for path, about in found if about.st_mode & 0o077 and not stat.S_ISLNK(about.st_mode)]:
        yield Finding(name, "warning", f"{_some(public)}: not private", f"chmod -R go-rwx {quoted}")
    else:
        yield Finding(name, "ok", f"{folder} is private")


def _some(paths: list[Path]) -> str:
    more = f" and {len(paths) - _FILES_NAMED:,} more" if len(paths) > _FILES_NAMED else ""
    return ", ".join(str(path) for path in paths[:_FILES_NAMED]) + more


def check_disk(folder: Path, retain_bytes: int) -> Iterator[Finding]:
    """Is there room, for what the log may keep as well, and does a write reach the disk?"""
    place = _nearest(folder)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    room = f"{_size(free)} free at {place}"
    if free < LITTLE_BYTES or (found.f_files and not found.f_favail):
        advice = "make room, or lower log.retain_bytes and log.retain_seconds; publications are refused on a full disk"
        yield Finding("disk", "wrong", room if free < LITTLE_BYTES else f"no file can be made at {place}", advice)
    elif retain_bytes > free + (used := sum(about.st_size for _, about in _files_in(folder / "log"))):
        kept = f"{room}; the log may grow from {_size(used)} to {_size(retain_bytes)}"
        yield Finding("disk", "warning", kept, "lower log.retain_bytes, or give the folder a larger disk")
    else:
        yield Finding("disk", "ok", room)
    if not os.access(place, os.W_OK | os.X_OK):
        return  # told with the folder
    begun = time.monotonic()
    try:
        files.replace(place / PROBE_FILE, b"\0" * 4_096, mode=files.PRIVATE)
        seconds = time.monotonic() - begun
        files.remove(place / PROBE_FILE)
    except OSError as error:
        advice = "see the system's log (dmesg): is the disk full, broken or mounted read-only?"
        yield Finding("fsync", "wrong", f"nothing can be written to {place}: {error.strerror or error}", advice)
        return
    took = f"a file was written and synced in {seconds * 1_000:.1f} ms"
    if seconds > SLOW_SYNC_SECONDS:
        yield Finding("fsync", "warning", took, "every commit waits that long: use a local disk with less load")
    else:
        yield Finding("fsync", "ok", took)


def _nearest(path: Path) -> Path:
    """The folder itself, or where it would be made."""
    return next(one for one in (path.absolute(), *path.absolute().parents) if one.is_dir())


def _files_in(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a folder; what a running service removes meanwhile is left out."""
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(top, name)
            with suppress(OSError):
                yield path, path.lstat()


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1_000:
            return f"{count:.0f} {unit}"
        count /= 1_000
    return f"{count:,.1f} GB"


# --- clock and kernels -----------------------------------------------------------------------------------------------


def check_clock(folder: Path) -> Iterator[Finding]:
    """Is the time of day possible, not behind what was stored, and does it go on as the monotonic clock does?"""
    advice = "set the time, and let an NTP service keep it (timedatectl set-ntp true)"
    wall, steady = time.time(), time.monotonic()
    time.sleep(CLOCK_SECONDS)
    passed, steadily = time.time() - wall, time.monotonic() - steady
    newest = max((about.st_mtime for _, about in _files_in(folder)), default=0.0)
    now = datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds")
    if wall < EARLIEST:
        yield Finding("clock", "wrong", f"it is {now} by the clock, which cannot be", advice)
    elif newest > wall + AHEAD_SECONDS:
        behind = f"the clock ({now}) is {newest - wall:,.0f} s behind the newest file in {folder}"
        yield Finding("clock", "wrong", behind, advice)
    elif steadily <= 0 or abs(passed - steadily) > CLOCK_SECONDS:
        moved = f"in {steadily:.3f} s of the monotonic clock the time of day moved by {passed:.3f} s"
        yield Finding("clock", "warning", moved, advice)
    else:
        yield Finding("clock", "ok", now)


def check_kernels() -> Iterator[Finding]:
    """Are the kernels of the index compiled, for this user on this machine?"""
    folder = cache.cache_folder()
    if cache.is_prepared():
        yield Finding("kernels", "ok", f"all are in {folder}")
    elif cache.can_write():
        advice = "recado kernels build; without it the service matches more slowly until it has compiled them"
        yield Finding("kernels", "warning", f"not all are in {folder}", advice)
    else:
        advice = "name a folder that can be written with NUMBA_CACHE_DIR, then: recado kernels build"
        yield Finding("kernels", "warning", f"not all are in {folder}, which cannot be written", advice)


# --- ports -----------------------------------------------------------------------------------------------------------


def check_ports(config: Config) -> Iterator[Finding]:
    """Is each port of the configuration free, or held by the service of the folder?"""
    pid = service_pid(Path(config.data))
    for member, host, port, kind in listeners(config):
        name = f"{host}:{port}/{'tcp' if kind == socket.SOCK_STREAM else 'udp'} ({member})"
        if port == 0:
            yield Finding("port", "ok", f"{member} is 0: the system chooses one")
            continue
        error = _try_port(host, port, kind)
        if error is None:
            yield Finding("port", "ok", f"{name} is free")
        elif error.errno == errno.EADDRINUSE and pid is not None and _holds(pid, port, kind):
            yield Finding("port", "ok", f"{name} is held by the service of {config.data}, process {pid}")
        elif error.errno == errno.EADDRINUSE:
            advice = f"choose another {member}, or stop what holds it (ss -lptun 'sport = :{port}')"
            yield Finding("port", "wrong", f"{name} is in use, and not by a service on {config.data}", advice)
        else:
            advice = f"choose an address of this machine, and a {member} that this user may have"
            yield Finding("port", "wrong", f"{name}: {error.strerror or error}", advice)


def _try_port(host: str, port: int, kind: socket.SocketKind) -> OSError | None:
    """Why it cannot be had."""
    try:
        family, _, protocol, _, address = socket.getaddrinfo(host, port, type=kind)[0]
        with socket.socket(family, kind, protocol) as tried:
            if kind == socket.SOCK_STREAM:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        return error
    return None


def _holds(pid: int, port: int, kind: socket.SocketKind) -> bool:
    """Does the process have a socket at the port? Linux says it in /proc; elsewhere nobody knows."""
    protocol = "tcp" if kind == socket.SOCK_STREAM else "udp"
    sockets: set[str] = set()
    try:
        for table in (protocol, f"{protocol}6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
        return any(_target(path) in sockets for path in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # closed meanwhile
        return ""


# --- certificates ----------------------------------------------------------------------------------------------------


def check_certificates(config: Config) -> Iterator[Finding]:
    """Can each certificate be read, does its key fit, and for how long is it valid?"""
    pairs = [("http", config.http)]
    if config.sip.registrar == EMBEDDED:
        pairs.append(("sip", Http(certificate=config.sip.certificate, key=config.sip.key)))
    for section, settings in pairs:
        if settings.certificate or settings.key:
            yield _check_certificate(section, settings)
        if settings.client_ca:
            yield _check_authority(f"{section}.client_ca", settings.client_ca)
    if not config.http.certificate:
        yield Finding("certificate", "ok", "http.certificate is not set: HTTP is in clear")


def _check_certificate(section: str, settings: Http) -> Finding:
    name, path = f"{section}.certificate", settings.certificate
    try:
        check_key(settings.key, f"{section}.key")
        ends = _handshake(path, settings.key)
    except ConfigError as error:
        return Finding("certificate", "wrong", str(error), f"{section}.certificate and {section}.key name PEM files")
    except ssl.SSLCertVerificationError as error:
        advice = "set the clock" if error.verify_code == _NOT_YET_VALID else RENEW
        return Finding("certificate", "wrong", f"{name}: {path}: {error.verify_message}", advice)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        fits = (
            "the key does not fit the certificate" if "MISMATCH" in reason else f"not a certificate and key: {reason}"
        )
        return Finding("certificate", "wrong", f"{name}: {path}: {fits}", f"give {section}.key its own key, as PEM")
    except OSError as error:
        advice = "let the user of the service read it"
        return Finding("certificate", "wrong", f"{name}: {path} cannot be read: {error.strerror or error}", advice)
    return _judge_end(name, path, ends, RENEW)


def _handshake(certificate: str, key: str) -> float:
    """Speak TLS with oneself, as a caller would who trusts just this certificate; when it ends."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate, key)
    client.check_hostname = False  # which names callers use is not known here
    client.load_verify_locations(certificate)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking, answering = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    for _ in range(10):  # an exchange takes two
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            if side is asking:
                return _end_of(asking.getpeercert() or {})
    raise ssl.SSLError("the handshake does not come to an end")


def _end_of(certificate: Mapping[str, object]) -> float:
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))


def _check_authority(name: str, path: str) -> Finding:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(path)
    except OSError as error:  # SSLError is one
        return Finding("certificate", "wrong", f"{name}: {path} cannot be used: {error}", "name a PEM file")
    ends = [_end_of(found) for found in context.get_ca_certs()]
    if not ends:
        return Finding("certificate", "wrong", f"{name}: {path} has no authority", "name the authority's certificate")
    advice = "renew it, and start the service again: callers with its certificates are refused afterwards"
    return _judge_end(name, path, min(ends), advice)


def _judge_end(name: str, path: str, ends: float, advice: str) -> Finding:
    left = ends - time.time()
    day = datetime.fromtimestamp(ends, UTC).date().isoformat()
    if left <= 0:
        return Finding("certificate", "wrong", f"{name}: {path} ended on {day}", advice)
    if left < EXPIRES_SOON_DAYS * DAY:
        return Finding("certificate", "warning", f"{name}: {path} ends on {day}, in {left / DAY:.1f} days", advice)
    return Finding("certificate", "ok", f"{name}: {path} is valid until {day}")
