package floodmark;

import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.table.data.RowData;

/** A topic of clicks, from its beginning to the end that it has when the job starts: then the job ends, too. */
public final class ClickTopic {
    private ClickTopic() {}

    public static KafkaSource<RowData> of(Arguments arguments) {
        return KafkaSource.<RowData>builder()
                .setBootstrapServers(arguments.text("brokers"))
                .setTopics(arguments.text("topic"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setProperty("isolation.level", "read_committed")
                .setDeserializer(new ClickReader())
                .build();
    }
}
