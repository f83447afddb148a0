"""Answers a query about an Iceberg table, called `t` in it, with DuckDB: one line a row, values with commas between.

    python duckdb_query.py METADATA_JSON QUERY
"""
import sys

import duckdb
from duckdb_extensions import import_extension


def main(metadata, query):
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for extension in ("avro", "iceberg"):
        import_extension(extension)
        connection.load_extension(extension)
    connection.execute(f"create view t as select * from iceberg_scan('{metadata}')")
    for row in connection.execute(query).fetchall():
        print(*row, sep=",")


if __name__ == "__main__":
    main(*sys.argv[1:])
