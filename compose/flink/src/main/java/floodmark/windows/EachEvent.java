package floodmark.windows;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.table.data.RowData;

/**
 * The watermark after each event: the largest time so far, less the bound. So it is a function of the log, and floodmark's.
 *
 * Flink's own generator goes by the clock, every 200 ms, and takes one millisecond more off.
 */
public final class EachEvent implements WatermarkGenerator<RowData> {
    private final long bound;
    private long newest = Long.MIN_VALUE;

    private EachEvent(Duration bound) {
        this.bound = bound.toMillis();
    }

    /** Times are those of the rows. */
    public static WatermarkStrategy<RowData> less(Duration bound) {
        return WatermarkStrategy.<RowData>forGenerator(context -> new EachEvent(bound));
    }

    @Override
    public void onEvent(RowData event, long time, WatermarkOutput output) {
        if (time > newest) {
            newest = time;
            output.emitWatermark(new Watermark(newest - bound));
        }
    }

    @Override
    public void onPeriodicEmit(WatermarkOutput output) {}
}
