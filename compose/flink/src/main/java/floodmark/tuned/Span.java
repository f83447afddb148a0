package floodmark.tuned;

import floodmark.Tally;

/** What a key had from one time to another, both included. Flink keeps it as a POJO: its fields are public. */
public final class Span {
    public String key;
    public long first;
    public long last;
    public Tally tally;

    public Span() {}

    public Span(String key, long first, long last, Tally tally) {
        this.key = key;
        this.first = first;
        this.last = last;
        this.tally = tally;
    }

    public Span plus(Span other) {
        return new Span(key, Math.min(first, other.first), Math.max(last, other.last), tally.plus(other.tally));
    }
}
