"""Holds digest.py to the vectors of docs/DIGEST.md: python compose/readers/test_digest.py"""
import decimal
import json
import pathlib
import re

import pyarrow as pa
import xxhash

from digest import rows

TYPES = {
    "int64": pa.int64(), "int32": pa.int32(), "bool": pa.bool_(), "float64": pa.float64(), "date": pa.date32(), "time_us": pa.time64("us"),
    "timestamp_ms": pa.timestamp("ms", "UTC"), "timestamp_us_ntz": pa.timestamp("us"), "string": pa.string(), "binary": pa.binary(),
}


def column(kind, text):
    value = json.loads(text)
    if kind.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", kind))
        return pa.array([decimal.Decimal(value)], pa.decimal128(precision, scale))
    if kind == "binary" and value is not None:
        value = bytes.fromhex(value)
    if kind == "date":
        return pa.array([value], pa.int32()).cast(TYPES[kind])
    return pa.array([value], TYPES[kind])


def main():
    document = (pathlib.Path(__file__).parents[2] / "docs/DIGEST.md").read_text()
    vectors = re.findall(r"^\| `(.+)` \| `([0-9a-f]*)` \| `([0-9a-f]{32})` \|$", document, re.M)
    assert len(vectors) > 10, "no vectors in docs/DIGEST.md"
    for row, encoded, hashed in vectors:
        cells = [re.fullmatch(r"(\w+) (\S+) = (.*)", cell).groups() for cell in row.split("; ")]
        table = pa.table({name: column(kind, text) for name, kind, text in cells})
        [found] = rows(table)
        assert found.hex() == encoded, f"{row}: {found.hex()} should be {encoded}"
        assert xxhash.xxh3_128_hexdigest(found) == hashed, row
    print(f"{len(vectors)} vectors hold")


if __name__ == "__main__":
    main()
