"""Reads an Iceberg table on S3 with PyIceberg and writes its rows as an Arrow IPC file.

    python pyiceberg_export.py METADATA_LOCATION OUT.arrow ENDPOINT ACCESS_KEY SECRET_KEY
"""
import sys

import pyarrow as pa
from pyiceberg.table import StaticTable


def main(metadata, out, endpoint, access_key, secret_key):
    properties = {
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": access_key,
        "s3.secret-access-key": secret_key,
    }
    table = StaticTable.from_metadata(metadata, properties).scan().to_arrow()
    with pa.ipc.new_file(out, table.schema) as file:
        file.write_table(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
