//! What a Java stack trace means, in a line.

/// The two innermost causes that say different things, the inner one last; else the first line, which is then the only one.
pub fn reason(trace: &str) -> String {
    let mut causes: Vec<&str> = Vec::new();
    for cause in trace.lines().filter_map(|line| line.trim().strip_prefix("Caused by: ")) {
        // Libraries wrap an exception in another with the same words.
        if causes.last().is_none_or(|last| message(last) != message(cause)) {
            causes.push(cause);
        }
    }
    match causes.as_slice() {
        [] => {
            let mut lines = trace.lines().map(str::trim);
            lines.find(|line| !line.is_empty()).unwrap_or("nothing was said").to_string()
        }
        [.., outer, inner] => format!("{outer}: {inner}"),
        [only] => (*only).to_string(),
    }
}

/// Without the exception's class.
fn message(cause: &str) -> &str {
    cause.split_once(": ").map_or(cause, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_causes_are_the_reason_and_wrapping_is_not() {
        let trace = "a.B: it failed
\tat a.B.c(B.java:1)
Caused by: a.Outer: can't open x.jar
\tat a.B.d(B.java:2)
Caused by: a.Inner: can't open x.jar
\t... 9 more
Caused by: b.ZipException: no END";
        assert_eq!(reason(trace), "a.Outer: can't open x.jar: b.ZipException: no END");
        assert_eq!(reason("\na.B: alone\n\tat a.B.c(B.java:1)"), "a.B: alone");
    }
}
