"""Changes a table of a SQLite catalog with PyIceberg, as its owner might while others commit to it.

    python alter_table.py CATALOG.db WAREHOUSE NAMESPACE.TABLE add|drop COLUMN
    python alter_table.py CATALOG.db WAREHOUSE NAMESPACE.TABLE delete FILTER
"""
import sys
import time

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import StringType
from sqlalchemy.exc import OperationalError


def main(catalog, warehouse, name, action, what):
    for _ in range(50):
        try:
            return alter(catalog, warehouse, name, action, what)
        except (CommitFailedException, OperationalError):
            time.sleep(0.1)
    raise SystemExit(f"{name}: never without a commit of another")


def alter(catalog, warehouse, name, action, what):
    catalog = SqlCatalog("floodmark", uri=f"sqlite:///{catalog}", warehouse=f"file://{warehouse}")
    if action == "delete":
        return catalog.load_table(name).delete(what)
    with catalog.load_table(name).update_schema(allow_incompatible_changes=True) as change:
        if action == "add":
            change.add_column(what, StringType())
        else:
            change.delete_column(what)


if __name__ == "__main__":
    main(*sys.argv[1:])
