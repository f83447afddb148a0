package floodmark;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.iceberg.Schema;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.types.Types;

/**
 * A click as a row: the columns of the records that `floodmark generate clickstream` writes, and behind them the place in the topic.
 *
 * Tables take these rows as they are. Writers go by position, so a table of EVENT leaves out the place by itself.
 * Doesn't know: JSON, Kafka, windows.
 */
public final class Clicks {
    public static final int EVENT_ID = 0;
    public static final int USER_ID = 1;
    public static final int EVENT_TYPE = 2;
    public static final int PRODUCT_ID = 3;
    public static final int PRICE_CENTS = 4;
    public static final int EVENT_TIME_MS = 5;
    public static final int SOURCE = 6;
    public static final int SCHEMA_VERSION = 7;
    public static final int PARTITION = 8;
    public static final int OFFSET = 9;

    public static final Schema EVENT = new Schema(
            required(1, "event_id", Types.StringType.get()),
            required(2, "user_id", Types.StringType.get()),
            required(3, "event_type", Types.StringType.get()),
            required(4, "product_id", Types.StringType.get()),
            optional(5, "price_cents", Types.LongType.get()),
            required(6, "event_time_ms", Types.TimestampType.withZone()),
            required(7, "source", Types.StringType.get()),
            required(8, "schema_version", Types.IntegerType.get()));

    /** Of late clicks. */
    public static final Schema PLACED = new Schema(
            followedBy(EVENT.columns(), required(9, "_partition", Types.IntegerType.get()), required(10, "_offset", Types.LongType.get())));

    public static final TypeInformation<RowData> TYPE = InternalTypeInfo.of(FlinkSchemaUtil.convert(PLACED));

    private Clicks() {}

    public static String text(RowData click, int column) {
        return click.getString(column).toString();
    }

    public static long time(RowData click) {
        return click.getTimestamp(EVENT_TIME_MS, 6).getMillisecond();
    }

    private static List<Types.NestedField> followedBy(List<Types.NestedField> columns, Types.NestedField... more) {
        List<Types.NestedField> all = new ArrayList<>(columns);
        all.addAll(List.of(more));
        return all;
    }
}
