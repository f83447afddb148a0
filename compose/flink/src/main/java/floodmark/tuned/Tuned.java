package floodmark.tuned;

import floodmark.Arguments;
import floodmark.ClickTopic;
import floodmark.Clicks;
import floodmark.Lake;
import floodmark.Sum;
import floodmark.Tally;
import floodmark.WindowRow;
import java.time.Duration;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.table.data.RowData;

/**
 * The clickstream pipeline (docs/examples/clickstream.toml) written by hand for Flink, so that it costs as little as it can there.
 *
 *   clicks ─by id─ first copies ┬ events
 *                               ├ late
 *                               ├ spans per type ─by type─ windows ─ per_type
 *                               └ spans per user ─by user─ sessions
 *
 * A click is sent to another task once; after that only sums are. No object is copied between chained operators.
 * Parallelism, checkpoints and state backend are the cluster's.
 */
public final class Tuned {
    private Tuned() {}

    public static void main(String[] given) throws Exception {
        Arguments arguments = Arguments.of(given, "brokers", "topic", "bound", "size", "gap", "catalog-uri", "warehouse");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.getConfig().enableObjectReuse();
        // In RocksDB nearly all ids that are asked for aren't there. The heap has no use for it.
        environment.configure(Configuration.fromMap(Map.of("state.backend.rocksdb.use-bloom-filter", "true")));

        WatermarkStrategy<RowData> times = WatermarkStrategy.<RowData>forBoundedOutOfOrderness(arguments.duration("bound"))
                .withTimestampAssigner((click, logged) -> Clicks.time(click));
        SingleOutputStreamOperator<RowData> events = environment.fromSource(ClickTopic.of(arguments), times, "clicks")
                .uid("clicks")
                .keyBy(click -> Clicks.text(click, Clicks.EVENT_ID), Types.STRING)
                .process(new FirstCopies())
                .returns(Clicks.TYPE)
                .name("first copies")
                .uid("first-copies");
        DataStream<RowData> onTime = events.getSideOutput(FirstCopies.ON_TIME);

        Lake lake = new Lake(arguments);
        lake.write(events, "events", Clicks.EVENT);
        lake.write(events.getSideOutput(FirstCopies.LATE), "late", Clicks.PLACED);
        lake.write(perType(onTime, arguments.duration("size")), "per_type", WindowRow.PER_TYPE);
        lake.write(sessions(onTime, arguments.duration("gap").toMillis()), "sessions", WindowRow.PER_USER);
        environment.execute("tuned");
    }

    /** A span has the time of its last click, so Flink's own windows can add spans up. */
    private static DataStream<RowData> perType(DataStream<RowData> clicks, Duration size) {
        return spans(clicks, "spans per type", new LocalSpans(Clicks.EVENT_TYPE, Grouping.window(size.toMillis())))
                .keyBy(span -> span.key, Types.STRING)
                .window(TumblingEventTimeWindows.of(size))
                .aggregate(
                        new Sum<Span>(span -> span.tally), new WindowRow(), Types.POJO(Tally.class), Types.POJO(Tally.class), WindowRow.TYPE)
                .name("per type")
                .uid("per-type");
    }

    private static DataStream<RowData> sessions(DataStream<RowData> clicks, long gap) {
        return spans(clicks, "spans per user", new LocalSpans(Clicks.USER_ID, Grouping.session(gap)))
                .keyBy(span -> span.key, Types.STRING)
                .process(new UserSessions(gap))
                .returns(WindowRow.TYPE)
                .name("sessions")
                .uid("sessions");
    }

    private static DataStream<Span> spans(DataStream<RowData> clicks, String name, LocalSpans operator) {
        return clicks.transform(name, Types.POJO(Span.class), operator).name(name);
    }
}
