"""Writes Iceberg tables with PyIceberg into a folder and prints, as JSON, each one's metadata.json and its digest by digest.py.

    python make_tables.py FOLDER

So floodmark reads what it didn't write, and compares with a digest that it didn't compute.
"""
import datetime
import decimal
import json
import sys
import uuid

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from digest import digest

UTC = datetime.timezone.utc


def every_type(catalog):
    table = pa.table({
        "ok": pa.array([True, None, False]),
        "small": pa.array([1, -2, None], pa.int32()),
        "big": pa.array([2**62, None, -1], pa.int64()),
        "ratio": pa.array([0.5, None, -0.0], pa.float32()),
        "exact": pa.array([1e300, float("nan"), None], pa.float64()),
        "price": pa.array([decimal.Decimal("-12345678901234567890.12"), None, decimal.Decimal("0.01")], pa.decimal128(30, 2)),
        "day": pa.array([datetime.date(1969, 12, 31), None, datetime.date(2026, 1, 1)]),
        "at": pa.array([datetime.time(23, 59, 59, 999999), None, datetime.time(0)], pa.time64("us")),
        "moment": pa.array([-1, None, 1_767_225_600_000_001], pa.timestamp("us", "UTC")),
        "local": pa.array([datetime.datetime(1969, 1, 1), None, datetime.datetime(2026, 1, 1)], pa.timestamp("us")),
        "text": pa.array(["", None, "Überlauf 😀"]),
        "bytes": pa.array([b"", None, b"\x00\xff"]),
        "fixed": pa.array([b"0123", None, b"\x00\x00\x00\x00"], pa.binary(4)),
    })
    written = catalog.create_table("readers.every_type", schema=table.schema)
    written.append(table)
    return written


def with_uuids(catalog):
    """Apart, since DuckDB exports a uuid as text."""
    table = pa.table({"id": pa.array([uuid.UUID(int=n).bytes for n in (0, 1, 2**127)], pa.uuid())})
    written = catalog.create_table("readers.with_uuids", schema=table.schema)
    written.append(table)
    return written


def partitioned(catalog):
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()), NestedField(3, "t", TimestamptzType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"), PartitionField(3, 1001, DayTransform(), "day"))
    written = catalog.create_table("readers.partitioned", schema=schema, partition_spec=spec)
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    for part in range(4):
        numbers = range(part * 5_000, (part + 1) * 5_000)
        written.append(pa.table({
            "id": pa.array(numbers, pa.int64()),
            "kind": pa.array([["view", "click", None][n % 3] for n in numbers]),
            "t": pa.array([start + datetime.timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC")),
        }))
    written.delete("id < 100")
    return written


def evolved(catalog):
    old = pa.table({"n": pa.array([1, 2], pa.int32()), "x": pa.array([0.5, 1.5], pa.float32()), "gone": pa.array(["a", "b"])})
    written = catalog.create_table("readers.evolved", schema=old.schema)
    written.append(old)
    with written.update_schema() as change:
        change.update_column("n", field_type=LongType())
        change.update_column("x", field_type=DoubleType())
        change.rename_column("n", "number")
        change.delete_column("gone")
        change.add_column("note", StringType())
    written.append(pa.table({"number": pa.array([2**40]), "x": pa.array([1e300]), "note": pa.array(["new"])}))
    return written


def main(folder):
    catalog = SqlCatalog("readers", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("readers")
    tables = [every_type(catalog), with_uuids(catalog), partitioned(catalog), evolved(catalog)]
    described = {}
    for table in tables:
        rows = plain(table.scan().to_arrow())
        described[table.name()[-1]] = {"metadata": table.metadata_location, "location": table.location(), "digest": digest(rows)}
    print(json.dumps(described))


def plain(table):
    """Without Arrow's extension types: a uuid is its 16 bytes."""
    storage = [field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type for field in table.schema]
    return table.cast(pa.schema([field.with_type(kind) for field, kind in zip(table.schema, storage)]))


if __name__ == "__main__":
    main(sys.argv[1])
