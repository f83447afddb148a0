"""Waits until an Iceberg table has so many rows, or for the limit, and prints its rows, sorted, one JSON array a line.

    python read_table.py CATALOG_URI CATALOG TABLE ROWS LIMIT_SECONDS
"""
import json
import sys
import time

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError


def main(uri, catalog, table, rows, limit):
    lake = load_catalog(catalog, type="sql", uri=uri)
    end = time.monotonic() + float(limit)
    while count(lake, table) < int(rows) and time.monotonic() < end:
        time.sleep(1)
    for row in sorted(list(row.values()) for row in lake.load_table(table).scan().to_arrow().to_pylist()):
        print(json.dumps(row))


def count(lake, table):
    try:
        return lake.load_table(table).scan().count()
    except NoSuchTableError:
        return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
