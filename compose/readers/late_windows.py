"""Counts what holds between the windows and late rows of two sides, exported as Arrow IPC files, and prints it as JSON.

    python late_windows.py PER_TYPE SESSIONS LATE PER_TYPE SESSIONS LATE      Flink's, then floodmark's
"""
import json, sys

import duckdb
import pyarrow as pa

# A late row is one record for one window: where it lay in the log, and which window missed it.
QUERIES = {
    "late_flink": "select count(*) from late_a",
    "late_ours": "select count(*) from late_b",
    "late_only_flink": """
        select count(*) from
          (select _partition, _offset, _window_node, _window_start from late_a
           except all select _partition, _offset, _window_node, _window_start from late_b)""",
    "windows": "select count(*) from windows",
    "windows_more_flink": "select count(*) from windows where on_a + late_a > on_b + late_b",
    "windows_lost": "select coalesce(sum(on_b + late_b - on_a - late_a), 0)::bigint from windows where on_a + late_a < on_b + late_b",
    "windows_unequal": "select count(*) from windows where on_a + late_a != on_b + late_b",
    "windows_more_on_time_ours": "select count(*) from windows where on_b > on_a",
    "users": "select count(*) from users",
    "users_more_flink": "select count(*) from users where on_a + late_a > on_b + late_b",
    "users_lost": "select coalesce(sum(on_b + late_b - on_a - late_a), 0)::bigint from users where on_a + late_a < on_b + late_b",
    "users_unequal": "select count(*) from users where on_a + late_a != on_b + late_b",
}


def main(*files):
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for name, file in zip(["per_type_a", "sessions_a", "late_a", "per_type_b", "sessions_b", "late_b"], files):
        connection.register(name, pa.ipc.open_file(file).read_all())
    by_window = lambda side: f"""
        select event_type as key, begin_at, sum(on_time) as on_time, sum(late) as late from
          (select event_type, window_start as begin_at, events as on_time, 0 as late from per_type_{side}
           union all
           select event_type, _window_start, 0, 1 from late_{side} where _window_node = 'per_type') group by all"""
    by_user = lambda side: f"""
        select user_id as key, 0 as begin_at, sum(on_time) as on_time, sum(late) as late from
          (select user_id, events as on_time, 0 as late from sessions_{side}
           union all
           select user_id, 0, 1 from late_{side} where _window_node = 'sessions') group by all"""
    for name, by in [("windows", by_window), ("users", by_user)]:
        connection.execute(f"""
            create temp table {name} as
            select key, begin_at, coalesce(a.on_time, 0) as on_a, coalesce(a.late, 0) as late_a,
                   coalesce(b.on_time, 0) as on_b, coalesce(b.late, 0) as late_b
            from ({by("a")}) a full join ({by("b")}) b using (key, begin_at)""")
    print(json.dumps({name: connection.execute(query).fetchone()[0] for name, query in QUERIES.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
