"""What all tests share: how hypothesis draws its cases, and one Spark session, since starting one takes long.

The default profile is deterministic, so that a red build is red again. ``HYPOTHESIS_PROFILE=random`` looks for new
cases, and ``thorough`` (used by ``make test-all``) for many of them. A test that sets ``max_examples`` keeps its own
number.
"""

import logging
import os
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("random", settings.get_profile("repeatable"), derandomize=False, print_blob=True)
settings.register_profile("thorough", settings.get_profile("random"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Every JVM a test starts, this process's and those of others, lives for seconds: the second compiler and the parallel
# collector cost more than they give it. The launcher says on stderr that it took these, which nobody reads.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData")

# Compiling a plan, and planning it anew while it runs, take longer than a handful of rows do. Sessions that tests start
# in other processes have Spark's own settings, and so has this one under ``make test-all``.
PLAIN_PLANS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
if os.environ.get("HYPOTHESIS_PROFILE") == "thorough":
    PLAIN_PLANS = {}


ONE_WORKER = {"test_exact", "test_openapi", "test_semantics", "test_trees", "test_acceptance", "test_supernodes"}
"""Modules whose fixtures work out what all their tests compare with; so do most of ``WHOLE``."""
WHOLE = ("tests/benchmarks/", "tests/experiments/")
SPARK = {
    "tests/benchmarks/pipeline/test_pipeline_parts.py",
    "tests/cli/test_pipeline.py",
    "tests/cli/test_pipeline_urls.py",
    "tests/cli/test_semantic_places.py",
    "tests/cli/test_semantic_plugins.py",
    "tests/cli/test_transcripts.py",
    "tests/experiments/test_semantics_log.py",
    "tests/sim/runs/test_spark.py",
}
"""Modules with tests on Spark, beside those in ``tests/pipeline``."""
APART = {"test_kill", "test_clusters", "test_declarative", "test_elsewhere"}
"""Modules there that start Spark in other processes only."""


def group_of(module):
    """Which tests one worker has to run, since what they share costs more than they do; None if it does not matter.

    All modules with tests on Spark are two groups, so that two workers start a session: whatever its JVM does takes
    many times as long the first time. The radio's scenes have many processes each, one after another.
    """
    folder, _, name = module.rpartition("/")
    stem = name.removesuffix(".py")
    if module in SPARK or (folder.startswith("tests/pipeline") and stem not in APART):
        return "spark-1" if folder == "tests/pipeline" else "spark-2"
    if folder == "tests/radio":
        return "radio"
    return module if module.startswith(WHOLE) or stem in ONE_WORKER else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Groups by module. The marks of xdist 3.8 are not used: with pytest 9.2 they have no effect, without a word.

    Long runs have none: a long test takes longer than what it shares with others, and all workers shall have some.
    """
    if config.getvalue("dist") != "loadgroup" or os.environ.get("HYPOTHESIS_PROFILE") == "thorough":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid.partition("::")[0]) or nodeid

    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    on_spark = {item.nodeid.partition("::")[0] for item in items if "spark" in item.fixturenames}
    if strange := [module for module in on_spark if not (group_of(module) or "").startswith("spark")]:
        raise pytest.UsageError(f"tests/conftest.py has to name modules that use Spark: {', '.join(sorted(strange))}")


@pytest.fixture(scope="session")
def spark():
    from recado.pipeline.session import forget_log, start_session

    session = start_session("recado-tests", "local[2]", {"spark.sql.shuffle.partitions": "2", **PLAIN_PLANS})
    yield session
    session.stop()
    forget_log()


@pytest.fixture(params=["store", pytest.param("viewfs", marks=pytest.mark.long)])
def far_url(request, spark, tmp_path, monkeypatch):
    """``tmp_path / "far"`` at a URL; the working folder is another.

    Two file systems that Spark's own jars bring stand for all: ``viewfs``, which renames in one step, and another
    scheme laid over local files, which is taken for an object store because nothing is known of it. Only the output of
    streams asks which of the two it has: that test has both, the others have the second one unless long tests run.
    """
    name = f"m{uuid4().hex[:8]}"
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.store.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    conf.set("fs.viewfs.overload.scheme.target.store.impl", "org.apache.hadoop.fs.LocalFileSystem")
    conf.set(f"fs.viewfs.mounttable.{name}.link./data", f"file://{tmp_path}/far")
    (tmp_path / "far").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("RECADO_COPIES", str(tmp_path / "copies"))
    yield f"{request.param}://{name}/data"
    assert list((tmp_path / "here").iterdir()) == []  # no URL became a folder


@pytest.fixture(autouse=True)
def _same_logging():
    """A service that a test runs in this process sets up logging; the next test does not inherit that."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [held for held in root.handlers if getattr(held, "recado", False)]:
        root.removeHandler(handler)
    root.setLevel(level)
