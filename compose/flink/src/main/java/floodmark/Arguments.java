package floodmark;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.util.TimeUtils;

/** What a job was told: `--name value` for each of its names, and nothing else. */
public final class Arguments {
    private final Map<String, String> values;

    private Arguments(Map<String, String> values) {
        this.values = values;
    }

    public static Arguments of(String[] given, String... names) {
        Map<String, String> values = new HashMap<>();
        for (int at = 0; at < given.length; at += 2) {
            String name = given[at].replaceFirst("^--", "");
            if (!List.of(names).contains(name) || at + 1 == given.length) {
                throw new IllegalArgumentException(given[at] + ": it takes --name value, of these: " + String.join(", ", names));
            }
            values.put(name, given[at + 1]);
        }
        for (String name : names) {
            if (!values.containsKey(name)) {
                throw new IllegalArgumentException("--" + name + " is missing");
            }
        }
        return new Arguments(values);
    }

    public String text(String name) {
        return values.get(name);
    }

    /** As `10s` or `500 ms`. */
    public Duration duration(String name) {
        return TimeUtils.parseDuration(text(name));
    }
}
