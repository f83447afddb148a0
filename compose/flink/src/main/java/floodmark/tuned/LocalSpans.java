package floodmark.tuned;

import floodmark.Clicks;
import floodmark.Tally;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.data.RowData;

/**
 * Adds up clicks where they are, before they go to the task that has their key: many clicks make one span.
 *
 * Keeps no state: it hands on all that it holds before a barrier, and before a watermark, so that nothing becomes late by waiting here.
 */
public final class LocalSpans extends AbstractStreamOperator<Span> implements OneInputStreamOperator<RowData, Span> {
    private static final long serialVersionUID = 1;

    private final int key;
    private final Grouping grouping;
    private transient Map<String, List<Span>> held;

    /** Of the key in that column. */
    public LocalSpans(int key, Grouping grouping) {
        this.key = key;
        this.grouping = grouping;
        // Left alone it would begin a task of its own, and each click would be copied to it.
        chainingStrategy = ChainingStrategy.ALWAYS;
    }

    @Override
    public void open() throws Exception {
        super.open();
        held = new HashMap<>();
    }

    @Override
    public void processElement(StreamRecord<RowData> record) {
        String of = Clicks.text(record.getValue(), key);
        long time = record.getTimestamp();
        grouping.add(new Span(of, time, time, Tally.of(record.getValue())), held.computeIfAbsent(of, none -> new ArrayList<>(1)));
    }

    @Override
    public void processWatermark(Watermark watermark) throws Exception {
        handOn();
        super.processWatermark(watermark);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) {
        handOn();
    }

    private void handOn() {
        held.values().forEach(spans -> spans.forEach(span -> output.collect(new StreamRecord<>(span, span.last))));
        held.clear();
    }
}
