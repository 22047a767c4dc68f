"""Has DuckDB read exported tables, and prints what it finds as JSON.

usage: python tables.py SITES EVENTS
"""

import json
import sys

import duckdb

SITES, EVENTS = sys.argv[1:]


def main():
    db = duckdb.connect()
    for name, path in ("sites", SITES), ("events", EVENTS):
        reader = "read_parquet" if path.endswith(".parquet") else "read_csv"
        db.execute(f"create view {name} as select * from {reader}('{path}')")
    print(json.dumps({
        "columns": {name: columns(db, name) for name in ("sites", "events")},
        "sums": one(db, f"select {', '.join(f'sum({c})::bigint as {c}' for c in COUNTS)} from sites"),
        "of_events": one(db, OF_EVENTS),
        "live_by_site": agrees(db, LEAKED, "live, live_bytes"),
        "allocated_by_site": agrees(db, ALLOCATED, "allocations, allocated_bytes"),
        "peak": one(db, PEAK)["peak"],
        "stacks": stacks(db),
    }))


COUNTS = ["allocations", "allocated_bytes", "frees", "freed_bytes", "temporary", "temporary_bytes", "peak", "peak_bytes",
          "live", "live_bytes", "reallocs_in_place", "reallocs_moved"]

OF_EVENTS = """
    select count(block) as allocations, sum(size)::bigint as allocated_bytes, count(freed_block) as frees,
           sum(freed_size)::bigint as freed_bytes, count(*) filter (moved) as reallocs_moved,
           count(*) filter (not moved) as reallocs_in_place
    from events
"""

# What was allocated and never freed, by site: the table of sites has to say the same.
LEAKED = """
    select site, count(*) as live, sum(size)::bigint as live_bytes
    from events where block is not null and block not in (select freed_block from events where freed_block is not null)
    group by site
"""

ALLOCATED = "select site, count(*) as allocations, sum(size)::bigint as allocated_bytes from events where block is not null group by site"

# The highest sum of what is live, event by event.
PEAK = """
    select max(live)::bigint as peak
    from (select sum(coalesce(size, 0) - coalesce(freed_size, 0)) over (order by event) as live from events)
"""


def columns(db, table):
    return [[name, kind] for name, kind, *_ in db.execute(f"describe {table}").fetchall()]


def one(db, query):
    cursor = db.execute(query)
    return dict(zip([column[0] for column in cursor.description], cursor.fetchone()))


def agrees(db, query, numbers):
    """How many sites differ between the two tables."""
    first = numbers.split(",")[0]
    mine = f"select site, {numbers} from sites where {first} > 0"
    return db.execute(f"select count(*) from ((from ({query}) except {mine}) union all ({mine} except from ({query})))").fetchone()[0]


def stacks(db):
    """Innermost functions with their allocations; lists have as many places as functions."""
    kind = dict(columns(db, "sites"))["stack"]
    if kind == "VARCHAR":
        return dict(db.execute("select split_part(stack, chr(10), 1) as f, sum(allocations)::bigint from sites group by f").fetchall())
    uneven = db.execute("select count(*) from sites where len(stack) <> len(places) or len(stack) <> len(modules)").fetchone()[0]
    assert uneven == 0, f"{uneven} sites have stacks and places of different lengths"
    return dict(db.execute("select coalesce(stack[1], '') as f, sum(allocations)::bigint from sites group by f").fetchall())


if __name__ == "__main__":
    main()
