package floodmark.tuned;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;

/** Which spans of a key are one. */
public interface Grouping extends Serializable {
    boolean together(Span one, Span other);

    /** Those of a tumbling window. */
    static Grouping window(long size) {
        return (one, other) -> Math.floorDiv(one.first, size) == Math.floorDiv(other.first, size);
    }

    /** Those no further apart than the gap: touching sessions are one. */
    static Grouping session(long gap) {
        return (one, other) -> one.first <= other.last + gap && other.first <= one.last + gap;
    }

    /** Adds one to spans that are apart; they are apart again when it returns. One pass is enough: of those before, only it joins any. */
    default void add(Span span, List<Span> apart) {
        Span whole = span;
        for (Iterator<Span> each = apart.iterator(); each.hasNext();) {
            Span other = each.next();
            if (together(whole, other)) {
                each.remove();
                whole = whole.plus(other);
            }
        }
        apart.add(whole);
    }
}
