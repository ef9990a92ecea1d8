"""Coverage-guided fuzzing of everything that reads what strangers wrote.

    python fuzz/run.py --seconds 20                  every target, one after the other
    python fuzz/run.py --seconds 600 expression      one of them, for longer
    python fuzz/run.py --replay FILE expression      one input again, with its traceback

A target (``targets``) takes bytes and may raise nothing but RecadoError. Atheris runs each in a process of its own,
beginning with the examples of the documentation and the sample (``seeds``). What it learns and what it breaks is kept
in ``build/fuzz/TARGET``: ``corpus/`` is read again by the next run, and ``crash-*`` are the inputs to replay.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import seeds

FOLDER = Path(__file__).parents[1] / "build" / "fuzz"
LIMITS = ("-timeout=10", "-rss_limit_mb=3072", "-max_len=8192", "-verbosity=0", "-print_final_stats=1")
DICTIONARY_WORDS = 400


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz what reads foreign input; all targets if none is named.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(seeds.SEEDS)}")
    parser.add_argument("--seconds", type=int, default=20, help="how long each target runs (20)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one target on one input")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    known, rest = parser.parse_known_args()
    unknown = sorted(set(known.targets) - set(seeds.SEEDS))
    if unknown or (rest and not known.child):
        parser.error(f"there is no target {', '.join(unknown + rest)}; the targets are {', '.join(seeds.SEEDS)}")
    if known.child:
        return _fuzz(known.targets[0], rest)
    if known.replay:
        return _replay(known.targets, known.replay)
    failed = [name for name in known.targets or seeds.SEEDS if not _run(name, known.seconds)]
    if failed:
        sys.stdout.write(f"fuzzing broke {', '.join(failed)}; the inputs are in {FOLDER}\n")
    return 1 if failed else 0


def _run(name: str, seconds: int) -> bool:
    """Fuzz one target in a process of its own; True if nothing broke."""
    folder = FOLDER / name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    examples = list(seeds.SEEDS[name]())
    for example in examples:
        (corpus / blake2b(example, digest_size=10).hexdigest()).write_bytes(example)
    words = folder / "words"
    words.write_text("".join(f'"{word}"\n' for word in _words(examples)), encoding="ascii")
    command = [sys.executable, __file__, "--child", name, f"-max_total_time={seconds}", f"-dict={words}"]
    command += [f"-artifact_prefix={folder}/", *LIMITS, str(corpus)]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  # our own command line
    log = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    runs = re.search(r"number_of_executed_units: (\d+)", log)
    count = f"{int(runs[1]):,} inputs" if runs else "no statistics"
    sys.stdout.write(f"fuzz {name:<12} {'ok' if done.returncode == 0 else 'BROKEN':<7}{count}\n")
    if done.returncode:
        sys.stdout.write("".join(line for line in log.splitlines(True) if not line.startswith(("INFO:", "WARNING:"))))
    sys.stdout.flush()
    return done.returncode == 0


def _words(examples: Iterable[bytes]) -> list[str]:
    """The words and signs of the examples, escaped as libFuzzer's dictionaries want them."""
    found = sorted({word for example in examples for word in re.findall(rb"\w{1,16}|[^\w\s]{1,3}", example)})
    step = max(1, len(found) // DICTIONARY_WORDS)
    return ["".join(f"\\x{byte:02x}" for byte in word) for word in found[::step]]


def _fuzz(name: str, arguments: list[str]) -> int:
    import atheris  # noqa: PLC0415  # only the children need it

    # Kernels stay as they are: numba compiles their byte code, which instrumentation would change.
    with atheris.instrument_imports(include=["recado"], exclude=seeds.COMPILED):
        import targets  # noqa: PLC0415  # here, so that what it imports is instrumented
    atheris.Setup([sys.argv[0], *arguments], targets.TARGETS[name])
    atheris.Fuzz()
    return 0


def _replay(names: list[str], path: Path) -> int:
    import targets  # noqa: PLC0415  # without instrumentation

    for name in names:
        targets.TARGETS[name](path.read_bytes())
        sys.stdout.write(f"{name}: nothing wrong with {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
