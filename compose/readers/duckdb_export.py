"""Reads an Iceberg table with DuckDB, writes its rows as an Arrow IPC file, and prints their digest by digest.py.

    python duckdb_export.py METADATA_JSON OUT.arrow
"""
import sys

import duckdb
import pyarrow as pa
from duckdb_extensions import import_extension

from digest import digest


def main(metadata, out):
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for extension in ("avro", "iceberg"):
        import_extension(extension)
        connection.load_extension(extension)
    connection.execute("set timezone = 'UTC'")
    table = connection.execute("select * from iceberg_scan(?)", [metadata]).to_arrow_table()
    with pa.ipc.new_file(out, table.schema) as file:
        file.write_table(table)
    print(digest(table))


if __name__ == "__main__":
    main(*sys.argv[1:])
