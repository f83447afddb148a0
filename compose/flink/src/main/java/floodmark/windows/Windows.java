package floodmark.windows;

import floodmark.Arguments;
import floodmark.ClickTopic;
import floodmark.Clicks;
import floodmark.Lake;
import floodmark.Sum;
import floodmark.Tally;
import floodmark.WindowRow;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.OutputTag;
import org.apache.iceberg.Schema;

/**
 * What Flink's own window operators make of a topic of clicks, late ones included: tumbling and hopping windows by type of event, sessions
 * by user.
 *
 * For a topic of one partition: with that, watermarks after each event and no parallelism, a click meets at every operator the watermark of
 * the log before it. Nothing is left out before the windows: copies count.
 */
public final class Windows {
    private final DataStream<RowData> clicks;
    private final Lake lake;

    private Windows(DataStream<RowData> clicks, Lake lake) {
        this.clicks = clicks;
        this.lake = lake;
    }

    public static void main(String[] given) throws Exception {
        Arguments arguments = Arguments.of(given, "brokers", "topic", "bound", "size", "slide", "gap", "catalog-uri", "warehouse");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        WatermarkStrategy<RowData> times = EachEvent.less(arguments.duration("bound"))
                .withTimestampAssigner((click, logged) -> Clicks.time(click));
        DataStream<RowData> clicks = environment.fromSource(ClickTopic.of(arguments), times, "clicks").uid("clicks");

        Windows windows = new Windows(clicks, new Lake(arguments));
        Duration size = arguments.duration("size");
        windows.write("per_type", "late_tumbling", Clicks.EVENT_TYPE, WindowRow.PER_TYPE, TumblingEventTimeWindows.of(size));
        windows.write(
                "hopping",
                "late_hopping",
                Clicks.EVENT_TYPE,
                WindowRow.PER_TYPE,
                SlidingEventTimeWindows.of(size, arguments.duration("slide")));
        windows.write(
                "sessions",
                "late_sessions",
                Clicks.USER_ID,
                WindowRow.PER_USER,
                EventTimeSessionWindows.withGap(arguments.duration("gap")));
        environment.execute("windows");
    }

    /** Into a table of windows, and one of the clicks that came too late for all of theirs. */
    private void write(String table, String lateTable, int key, Schema schema, WindowAssigner<Object, TimeWindow> assigner) {
        OutputTag<RowData> late = new OutputTag<>("late", Clicks.TYPE);
        SingleOutputStreamOperator<RowData> rows = clicks
                .keyBy(click -> Clicks.text(click, key), Types.STRING)
                .window(assigner)
                .sideOutputLateData(late)
                .aggregate(new Sum<>(Tally::of), new WindowRow(), Types.POJO(Tally.class), Types.POJO(Tally.class), WindowRow.TYPE)
                .name(table)
                .uid(table);
        lake.write(rows, table, schema);
        lake.write(rows.getSideOutput(late), lateTable, Clicks.PLACED);
    }
}
