"""Changes a table of a SQLite catalog with PyIceberg, as its owner might.

    python alter_table.py CATALOG.db WAREHOUSE NAMESPACE.TABLE add|drop COLUMN
"""
import sys

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType


def main(catalog, warehouse, name, action, column):
    catalog = SqlCatalog("floodmark", uri=f"sqlite:///{catalog}", warehouse=f"file://{warehouse}")
    with catalog.load_table(name).update_schema(allow_incompatible_changes=True) as change:
        if action == "add":
            change.add_column(column, StringType())
        else:
            change.delete_column(column)


if __name__ == "__main__":
    main(*sys.argv[1:])
