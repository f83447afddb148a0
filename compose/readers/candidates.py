"""Counts, of tables that hold one row an id, which of the rows written they hold, and prints it as JSON.

    python candidates.py EVENTS EVENTS WRITTEN      Flink's, floodmark's, all rows that were written
"""
import json, sys

import duckdb
import pyarrow as pa


def main(*files):
    connection = duckdb.connect()
    for name, file in zip(["flink", "floodmark", "written"], files):
        connection.register(f"{name}_read", pa.ipc.open_file(file).read_all())
        connection.execute(f"create temp table {name} as select * from {name}_read")
    ask = lambda query: connection.execute(query).fetchone()[0]
    counted = {
        "ids": ask("select count(distinct event_id) from written"),
        "ids_of_several_rows": ask("select count(*) from (select event_id from written group by 1 having count(distinct schema_version) > 1)"),
    }
    columns = ", ".join(name for name, *_ in connection.execute("describe written").fetchall())
    for side in ("flink", "floodmark"):
        counted |= {
            f"rows_{side}": ask(f"select count(*) from {side}"),
            f"missing_{side}": ask(f"select count(*) from (select event_id from written except select event_id from {side})"),
            f"foreign_{side}": ask(f"select count(*) from (select {columns} from {side} except select {columns} from written)"),
            f"second_{side}": ask(f"select count(*) from {side} where schema_version = 2"),
        }
    print(json.dumps(counted))


if __name__ == "__main__":
    main(*sys.argv[1:])
