package floodmark;

import org.apache.flink.table.data.RowData;

/** How many clicks, and what those with a price came to. Flink keeps it as a POJO: its fields are public. */
public final class Tally {
    public long events;
    public long cents;
    public long priced;

    public Tally() {}

    private Tally(long events, long cents, long priced) {
        this.events = events;
        this.cents = cents;
        this.priced = priced;
    }

    public static Tally of(RowData click) {
        return click.isNullAt(Clicks.PRICE_CENTS) ? new Tally(1, 0, 0) : new Tally(1, click.getLong(Clicks.PRICE_CENTS), 1);
    }

    /** A sum that doesn't fit is an error, and stops the job. */
    public Tally plus(Tally other) {
        return new Tally(events + other.events, Math.addExact(cents, other.cents), priced + other.priced);
    }

    /** None where no click had a price, as SQL's SUM has it. */
    public Long revenue() {
        return priced == 0 ? null : cents;
    }
}
