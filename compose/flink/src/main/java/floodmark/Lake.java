package floodmark;

import java.util.Map;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.table.data.RowData;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DistributionMode;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.sink.FlinkSink;

/**
 * The Iceberg tables that a job writes, in a catalog that Postgres keeps; its name is floodmark's, so that whoever finds the ones finds the
 * others.
 *
 * Keeps: a table that is there already is taken as it is.
 */
public final class Lake {
    private static final Namespace NAMESPACE = Namespace.of("shop");

    private final CatalogLoader loader;
    private final Catalog catalog;

    public Lake(Arguments arguments) {
        Map<String, String> properties = Map.of(
                "uri", arguments.text("catalog-uri"),
                "jdbc.schema-version", "V1",
                "warehouse", arguments.text("warehouse"));
        loader = CatalogLoader.custom("floodmark", properties, new Configuration(), "org.apache.iceberg.jdbc.JdbcCatalog");
        catalog = loader.loadCatalog();
        SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
        if (!namespaces.namespaceExists(NAMESPACE)) {
            namespaces.createNamespace(NAMESPACE);
        }
    }

    /** Rows go to the writer that is chained to them, and are committed with each checkpoint and at the end. */
    public void write(DataStream<RowData> rows, String name, Schema schema) {
        TableIdentifier table = TableIdentifier.of(NAMESPACE, name);
        if (!catalog.tableExists(table)) {
            catalog.createTable(table, schema, PartitionSpec.unpartitioned(), Map.of("format-version", "2"));
        }
        FlinkSink.forRowData(rows)
                .tableLoader(TableLoader.fromCatalog(loader, table))
                .distributionMode(DistributionMode.NONE)
                .uidPrefix(name)
                .append();
    }
}
