package floodmark;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.util.function.SerializableFunction;

/** Adds up the tallies of what falls into a window. */
public final class Sum<T> implements AggregateFunction<T, Tally, Tally> {
    private static final long serialVersionUID = 1;

    private final SerializableFunction<T, Tally> tally;

    public Sum(SerializableFunction<T, Tally> tally) {
        this.tally = tally;
    }

    @Override
    public Tally createAccumulator() {
        return new Tally();
    }

    @Override
    public Tally add(T value, Tally sum) {
        return sum.plus(tally.apply(value));
    }

    @Override
    public Tally getResult(Tally sum) {
        return sum;
    }

    @Override
    public Tally merge(Tally one, Tally other) {
        return one.plus(other);
    }
}
