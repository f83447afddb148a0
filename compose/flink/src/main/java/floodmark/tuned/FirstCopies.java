package floodmark.tuned;

import floodmark.Clicks;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * The first copy of each click, and which of them are late: decided here, once, for all that follows.
 *
 * Keeps: a first copy goes out as an event, and besides to exactly one of ON_TIME and LATE. Ids are never forgotten.
 */
public final class FirstCopies extends KeyedProcessFunction<String, RowData, RowData> {
    private static final long serialVersionUID = 1;

    public static final OutputTag<RowData> ON_TIME = new OutputTag<>("on-time", Clicks.TYPE);
    public static final OutputTag<RowData> LATE = new OutputTag<>("late", Clicks.TYPE);

    private transient ValueState<Boolean> seen;

    @Override
    public void open(OpenContext context) {
        seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Types.BOOLEAN));
    }

    @Override
    public void processElement(RowData click, Context context, Collector<RowData> events) throws Exception {
        if (seen.value() != null) {
            return;
        }
        seen.update(true);
        events.collect(click);
        boolean late = context.timestamp() <= context.timerService().currentWatermark();
        context.output(late ? LATE : ON_TIME, click);
    }
}
