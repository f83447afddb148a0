package floodmark;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.util.Collector;
import org.apache.iceberg.Schema;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.types.Types;

/** What a window held of one key, with the columns that floodmark's tables of windows have. */
public final class WindowRow extends ProcessWindowFunction<Tally, RowData, String, TimeWindow> {
    private static final long serialVersionUID = 1;

    public static final Schema PER_TYPE = schema("event_type");
    public static final Schema PER_USER = schema("user_id");
    /** The name of the key makes no difference to it. */
    public static final TypeInformation<RowData> TYPE = InternalTypeInfo.of(FlinkSchemaUtil.convert(PER_TYPE));

    public static RowData of(long start, long end, String key, Tally tally) {
        return GenericRowData.of(
                TimestampData.fromEpochMillis(start),
                TimestampData.fromEpochMillis(end),
                StringData.fromString(key),
                tally.events,
                tally.revenue());
    }

    @Override
    public void process(String key, Context window, Iterable<Tally> tallies, Collector<RowData> out) {
        for (Tally tally : tallies) {
            out.collect(of(window.window().getStart(), window.window().getEnd(), key, tally));
        }
    }

    private static Schema schema(String key) {
        return new Schema(
                required(1, "window_start", Types.TimestampType.withZone()),
                required(2, "window_end", Types.TimestampType.withZone()),
                required(3, key, Types.StringType.get()),
                required(4, "events", Types.LongType.get()),
                optional(5, "revenue_cents", Types.LongType.get()));
    }
}
