"""Reads an Iceberg table with PyIceberg, writes its rows as an Arrow IPC file, and prints their digest by digest.py.

    python pyiceberg_export.py METADATA_LOCATION OUT.arrow [ENDPOINT ACCESS_KEY SECRET_KEY]
"""
import sys

import pyarrow as pa
from pyiceberg.table import StaticTable

from digest import digest


def main(metadata, out, *store):
    table = StaticTable.from_metadata(metadata, s3(*store) if store else {}).scan().to_arrow()
    with pa.ipc.new_file(out, table.schema) as file:
        file.write_table(table)
    print(digest(table))


def s3(endpoint, access_key, secret_key):
    return {
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": access_key,
        "s3.secret-access-key": secret_key,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
