package floodmark.tuned;

import floodmark.WindowRow;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.Collector;

/**
 * The sessions of each user: one value of all that are open, and one timer, at or before the earliest end.
 *
 * A session fires when the watermark reaches its end, where Flink's own windows do so one millisecond before: then no click that isn't late
 * can touch it.
 */
public final class UserSessions extends KeyedProcessFunction<String, Span, RowData> {
    private static final long serialVersionUID = 1;

    private final long gap;
    private final Grouping grouping;
    private transient ValueState<List<Span>> open;

    public UserSessions(long gap) {
        this.gap = gap;
        this.grouping = Grouping.session(gap);
    }

    @Override
    public void open(OpenContext context) {
        open = getRuntimeContext().getState(new ValueStateDescriptor<>("open", Types.LIST(Types.POJO(Span.class))));
    }

    @Override
    public void processElement(Span span, Context context, Collector<RowData> rows) throws Exception {
        List<Span> sessions = open.value();
        if (sessions == null) {
            sessions = new ArrayList<>(1);
            context.timerService().registerEventTimeTimer(end(span));
        }
        grouping.add(span, sessions);
        open.update(sessions);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<RowData> rows) throws Exception {
        long watermark = context.timerService().currentWatermark();
        List<Span> left = new ArrayList<>(1);
        long earliest = Long.MAX_VALUE;
        for (Span session : open.value()) {
            if (end(session) <= watermark) {
                rows.collect(WindowRow.of(session.first, end(session), session.key, session.tally));
            } else {
                left.add(session);
                earliest = Math.min(earliest, end(session));
            }
        }
        if (left.isEmpty()) {
            open.clear();
        } else {
            open.update(left);
            context.timerService().registerEventTimeTimer(earliest);
        }
    }

    private long end(Span session) {
        return session.last + gap;
    }
}
