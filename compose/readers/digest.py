"""The digest of docs/DIGEST.md over a pyarrow table, written apart from the Rust one: python digest.py FILE.arrow"""
import decimal, struct, sys

import pyarrow as pa
import xxhash

is_, word = pa.types, struct.Struct("<q").pack


def class_and_values(column):
    """Class byte (with a decimal's scale) of a column, and bytes or None for each row."""
    kind = column.type
    if is_.is_dictionary(kind):
        return class_and_values(column.cast(kind.value_type))
    if is_.is_boolean(kind):
        return b"b", each(column, lambda v: bytes([v]))
    if is_.is_integer(kind) and kind != pa.uint64():
        return b"i", each(column, word)
    if is_.is_floating(kind):
        return b"f", each(column, lambda v: struct.pack("<d", v + 0.0 if v == v else float("nan")))
    if is_.is_decimal(kind):
        wide, scale = decimal.Context(prec=76), kind.scale
        return b"d" + struct.pack("<b", scale), each(column, lambda v: int(v.scaleb(scale, wide)).to_bytes(16, "little", signed=True))
    if is_.is_date(kind):
        return b"D", each(column.cast(pa.date32()).cast(pa.int32()), word)
    if is_.is_time(kind):
        return b"t", each(column.cast(pa.time64("us")).cast(pa.int64()), word)
    if is_.is_timestamp(kind):
        return b"T" if kind.tz else b"L", each(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()), word)
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return b"s", each(column, lambda v: sized(v.encode()))
    if kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or is_.is_fixed_size_binary(kind):
        return b"x", each(column, sized)
    raise TypeError(f"the digest has no encoding for {kind}")


def each(column, encode):
    return [None if v is None else encode(v) for v in column.to_pylist()]


def sized(v):
    return struct.pack("<I", len(v)) + v


def rows(table, without_meta=False):
    cells = [[b""] * table.num_rows]
    for name in sorted(table.column_names, key=str.encode):
        if not is_.is_null(table[name].type) and not (without_meta and name.startswith("_")):
            class_, values = class_and_values(table[name])
            cells.append([b"" if v is None else sized(name.encode()) + class_ + v for v in values])
    return (b"".join(row) for row in zip(*cells))


def digest(table, without_meta=False):
    total = sum(xxhash.xxh3_128_intdigest(row) for row in rows(table, without_meta)) % 2**128
    return f"v1:{table.num_rows}:{total:032x}"


if __name__ == "__main__":
    print(digest(pa.ipc.open_file(sys.argv[1]).read_all()))
