"""What all tests share: how hypothesis draws its cases, and one Spark session, since starting one takes long.

The default profile is deterministic, so that a red build is red again. ``HYPOTHESIS_PROFILE=random`` looks for new
cases, and ``thorough`` (used by ``make test-all``) for many of them. A test that sets ``max_examples`` keeps its own
number.
"""

import logging
import os

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


ONE_WORKER = {"test_planted", "test_exact", "test_openapi", "test_transcripts"}


def pytest_collection_modifyitems(items):
    """Which tests one worker has to run: what they share costs more than they do.

    Everything that starts a JVM is one group: there is one session for all, and two JVMs are enough. Modules whose
    fixtures work out what all their tests compare with are a group each.
    """
    for item in items:
        if "spark" in item.fixturenames or "pipeline" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.path.stem in ONE_WORKER:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def spark():
    from recado.pipeline.session import log_file, start_session

    session = start_session("recado-tests", "local[2]", {"spark.sql.shuffle.partitions": "2", **PLAIN_PLANS})
    yield session
    session.stop()
    log_file().unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def _same_logging():
    """A service that a test runs in this process sets up logging; the next test does not inherit that."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [held for held in root.handlers if getattr(held, "recado", False)]:
        root.removeHandler(handler)
    root.setLevel(level)
