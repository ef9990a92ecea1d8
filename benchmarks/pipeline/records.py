"""What the benchmark of the pipeline finds out, as records: a line of NDJSON each, and the source of every table."""

from __future__ import annotations

from benchmarks.records import Machine, Rate, Record, Target

RECADO = "recado"
LOOP_JOIN = "nested-loop join"
HASH_JOIN = "hash join"
RULES = "Python rules"

READ = "read"
SENT = "and sent to Python"
EXCHANGE = "and notifications back, ready made"
WHOLE = "the whole job"
PLAIN = "plain process"


class Step(Record, frozen=True, tag="step"):
    """What is being done now; for whoever waits, not for tables."""

    title: str


class Side(Record, frozen=True, tag="side"):
    """One way of matching on Spark, on one workload. ``checked`` pairs were the same on all sides before."""

    workload: str
    subscriptions: int
    side: str
    cores: int
    checked: int
    events: int
    rate: Rate


class Kernel(Record, frozen=True, tag="kernel"):
    """Through Spark on ``cores``, next to the same work in a plain process.

    ``pairs`` is the batch matcher alone on one core, with its batches in memory. ``alone`` is the same job as on Spark,
    in one plain process: from Parquet to notifications in Arrow. ``together`` is the sum of as many such processes at
    once as there are cores: what the machine itself allows. ``form`` is how rows are events: typed columns, or JSON.
    """

    workload: str
    subscriptions: int
    cores: int
    events: int
    notifications_per_event: float
    pairs: Rate
    alone: Rate
    together: Rate
    spark: Rate
    form: str = "columns"

    @property
    def title(self) -> str:
        return f"{self.workload} {self.subscriptions:,}, {self.form}"

    @property
    def share(self) -> float:
        """Of ``cores`` times the matcher alone."""
        return self.spark.best / (self.cores * self.alone.best)

    @property
    def share_of_machine(self) -> float:
        """Of what plain processes reach on all cores at once."""
        return self.spark.best / self.together.best


class Cost(Record, frozen=True, tag="cost"):
    """What a step of the job costs with all steps before it; CPU seconds an event, of JVM and Python processes."""

    workload: str
    subscriptions: int
    form: str
    step: str
    events: int
    rate: Rate
    jvm_seconds: float
    python_seconds: float

    @property
    def title(self) -> str:
        return f"{self.workload} {self.subscriptions:,}, {self.form}"


class Growth(Record, frozen=True, tag="growth"):
    """One point of the growth curve: a whole job, from files of events to notifications."""

    cores: int
    subscriptions: int
    events: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds


class Loading(Record, frozen=True, tag="loading"):
    """How the largest index reached the workers in the jobs of a growth curve, and what it cost them.

    ``loads`` counts all sets that the workers opened, ``most_loads`` those of one worker; ``sets`` were in use. The
    bytes are of all workers together: what they hold for themselves, and what is in memory of the mapped index, each
    page counted once for each worker (``mapped``) and once at all (``mapped_once``).
    """

    cores: int
    subscriptions: int
    tasks: int
    workers: int
    sets: int
    loads: int
    most_loads: int
    seconds_per_load: float
    file_bytes: int
    private_bytes: int
    mapped_bytes: int
    mapped_once_bytes: int


class State(Record, frozen=True, tag="state"):
    """Delivery constraints on a stream; rates and seconds are of the micro-batches after the first."""

    cores: int
    keys: int
    batches: int
    notifications: int
    delivered: int
    rate: float
    first_batch_seconds: float
    batch_seconds: float
    state_rows: int
    memory_bytes: int
    disk_bytes: int


AnyRecord = Machine | Step | Side | Kernel | Cost | Growth | Loading | State | Target
