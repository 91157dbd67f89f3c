"""What a scrape of the metrics costs the database at 100 topics and 100 consumers: CPU of the backend that reads them.

Four situations, in turns: nothing happened since the last scrape; every topic was written, and its consumer has caught up; the same, with
every tenth consumer behind; and every topic was written, and every consumer has moved and is behind, which is the worst case. Beside them
the sizes of the log, which a node reads every 5 minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.lab import Lab, surroundings
from bench.result import Figure, report
from headrace.core import JSON, decode, encode
from headrace.db import Connection, connect

TOPICS = 100
EVENTS = 1000
"""Events of a topic before the measurement."""
READ = "select metric, labels, value from headrace.metrics(%s::jsonb, %s)"


class Scraper:
    """Reads the metrics as a node does, on one session."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._pid = conn.info.backend_pid
        self._known: dict[str, JSON] = {}

    def scrape_ms(self, *, log_bytes: bool = False) -> float:
        """The CPU milliseconds of one scrape."""
        before = self._cpu_ms()
        rows = self._conn.execute(READ, (encode(self._known), log_bytes)).fetchall()
        taken = self._cpu_ms() - before
        self._known = {labels[0]: decode(labels[1]) for metric, labels, _ in rows if metric == "headrace_known"}
        return taken

    def reference_us(self, calls: int = 50) -> float:
        """The CPU microseconds of a `select 1`: 20 on this machine when it is quiet."""
        before = self._cpu_ms()
        for _ in range(calls):
            self._conn.execute("select 1")
        return (self._cpu_ms() - before) * 1000 / calls

    def _cpu_ms(self) -> float:
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e6


def run(lab: Lab, *, quick: bool) -> None:
    rounds = 3 if quick else 15
    with lab.database("metrics", partitions=1) as target, connect(target) as conn, connect(target) as session:
        fill(conn)
        scraper = Scraper(session)
        situations: dict[str, Callable[[], None]] = {
            "nothing happened": lambda: None,
            "all topics written, consumers caught up": lambda: write(conn, behind=0),
            "all topics written, a tenth of the consumers behind": lambda: write(conn, behind=TOPICS // 10),
            "all topics written, all consumers moved and behind": lambda: write(conn, behind=TOPICS),
        }
        taken: dict[str, list[float]] = {name: [] for name in situations} | {"sizes of the log, beside the rest": []}
        first_ms = scraper.scrape_ms()
        references_us: list[float] = []
        for _ in range(rounds):
            for name, happen in situations.items():
                happen()
                if name == "nothing happened":
                    conn.execute("update headrace_internal.topic set asleep = true")
                    scraper.scrape_ms()
                taken[name].append(scraper.scrape_ms())
            references_us.append(scraper.reference_us())
            without = scraper.scrape_ms()
            taken["sizes of the log, beside the rest"].append(scraper.scrape_ms(log_bytes=True) - without)
    # The noise of neighbours only adds, so the low quarter is nearest to the truth; the median is told, too.
    figures = [
        Figure(name, low_quarter(values), 10, "ms", at_most=True, detail=f"median {median(values):.1f}, {len(values)} scrapes")
        for name, values in taken.items()
    ]
    raw: dict[str, object] = {"cpu_ms": taken, "first_scrape_of_a_session_ms": first_ms, "select_1_us": references_us}
    report("metrics", surroundings(lab), figures, raw)


def low_quarter(values: list[float]) -> float:
    return sorted(values)[len(values) // 4]


def fill(conn: Connection) -> None:
    for number in range(TOPICS):
        name = f"topic{number}"
        conn.execute("select headrace.create_topic(%s)", (name,))
        conn.execute("select headrace.create_consumer(%s, 'consumer')", (name,))
        conn.execute("select headrace.publish(%s, 'placed', '{}') from generate_series(1, %s)", (name, EVENTS))
    sequence(conn)
    conn.execute("vacuum analyze")


def write(conn: Connection, *, behind: int) -> None:
    """Publishes to every topic and moves every consumer: to the head, or this many of them to the event before it."""
    for number in range(TOPICS):
        conn.execute("select headrace.publish(%s, 'placed', '{}') from generate_series(1, 2)", (f"topic{number}",))
    sequence(conn)
    conn.execute(
        """update headrace_internal.cursor u set position = h.position - case when mod(c.consumer_id, %s) < %s then 1 else 0 end
           from headrace_internal.consumer c cross join lateral headrace.log_head(c.topic_id) h where c.consumer_id = u.consumer_id""",
        (TOPICS, behind),
    )


def sequence(conn: Connection) -> None:
    while conn.execute("select count(*) from headrace.sequence(100000)").fetchone() != (0,):
        pass
