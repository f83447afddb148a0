package floodmark;

import java.io.IOException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonParser;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonToken;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Makes a row of a record's JSON, token by token. Fields that a click doesn't have are passed over.
 *
 * Keeps: a record that isn't a click stops the job and is named by its place; none is left out.
 */
public final class ClickReader implements KafkaRecordDeserializationSchema<RowData> {
    private static final long serialVersionUID = 1;
    private static final JsonFactory JSON = new JsonFactory();

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<RowData> out) throws IOException {
        GenericRowData click = new GenericRowData(Clicks.OFFSET + 1);
        try {
            read(record.value(), click);
        } catch (IOException | IllegalArgumentException bad) {
            String place = record.topic() + ", partition " + record.partition() + ", offset " + record.offset();
            throw new IOException("no click: " + place + ": " + bad.getMessage(), bad);
        }
        click.setField(Clicks.PARTITION, record.partition());
        click.setField(Clicks.OFFSET, record.offset());
        out.collect(click);
    }

    @Override
    public TypeInformation<RowData> getProducedType() {
        return Clicks.TYPE;
    }

    private static void read(byte[] value, GenericRowData click) throws IOException {
        if (value == null) {
            throw new IllegalArgumentException("there is no value");
        }
        try (JsonParser json = JSON.createParser(value)) {
            if (json.nextToken() != JsonToken.START_OBJECT) {
                throw new IllegalArgumentException("its value is no object");
            }
            while (json.nextToken() == JsonToken.FIELD_NAME) {
                String field = json.getCurrentName();
                json.nextToken();
                readField(field, json, click);
            }
        }
        for (int column = 0; column < Clicks.PARTITION; column++) {
            if (click.isNullAt(column) && column != Clicks.PRICE_CENTS) {
                throw new IllegalArgumentException("there is no " + Clicks.EVENT.columns().get(column).name());
            }
        }
    }

    private static void readField(String field, JsonParser json, GenericRowData click) throws IOException {
        switch (field) {
            case "event_id" -> click.setField(Clicks.EVENT_ID, text(json));
            case "user_id" -> click.setField(Clicks.USER_ID, text(json));
            case "event_type" -> click.setField(Clicks.EVENT_TYPE, text(json));
            case "product_id" -> click.setField(Clicks.PRODUCT_ID, text(json));
            case "price_cents" -> click.setField(Clicks.PRICE_CENTS, json.currentToken() == JsonToken.VALUE_NULL ? null : number(json));
            case "event_time_ms" -> click.setField(Clicks.EVENT_TIME_MS, TimestampData.fromEpochMillis(number(json)));
            case "source" -> click.setField(Clicks.SOURCE, text(json));
            case "schema_version" -> click.setField(Clicks.SCHEMA_VERSION, Math.toIntExact(number(json)));
            default -> json.skipChildren();
        }
    }

    private static StringData text(JsonParser json) throws IOException {
        if (json.currentToken() != JsonToken.VALUE_STRING) {
            throw new IllegalArgumentException(json.getCurrentName() + " is no text");
        }
        return StringData.fromString(json.getText());
    }

    private static Long number(JsonParser json) throws IOException {
        if (json.currentToken() != JsonToken.VALUE_NUMBER_INT) {
            throw new IllegalArgumentException(json.getCurrentName() + " is no integer");
        }
        return json.getLongValue();
    }
}
