//! Stable names of what a pipeline file can be refused for.
//!
//! An id never changes its meaning and is never used again for another. Each has a section in docs/ERRORS.md and a case in config/tests.
//! Doesn't know: the messages.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorId(pub &'static str);

macro_rules! error_ids {
    ($($name:ident = $id:literal;)*) => {
        impl ErrorId {
            $(pub const $name: Self = Self($id);)*
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

error_ids! {
    FILE = "F001";
    SYNTAX = "F002";
    UNKNOWN_SECTION = "F010";
    MISSING_SECTION = "F011";
    UNKNOWN_KEY = "F012";
    MISSING_KEY = "F013";
    WRONG_TYPE = "F014";
    NOT_ALLOWED = "F015";
    DURATION = "F016";
    SIZE = "F017";
    OUT_OF_RANGE = "F018";
    UNSET_VARIABLE = "F019";
    KEY_OF_OTHER_TYPE = "F020";
    BAD_NAME = "F021";
    DUPLICATE_NAME = "F022";
    BAD_ADDRESS = "F023";
    BAD_POSITION = "F024";
    NOT_A_TYPE = "F030";
    RESERVED_COLUMN = "F031";
    DUPLICATE_COLUMN = "F032";
    METADATA = "F033";
    UNKNOWN_COLUMN = "F034";
    NOT_A_KEY = "F035";
    EVENT_TIME_COLUMN = "F036";
    UNKNOWN_INPUT = "F040";
    CYCLE = "F041";
    SCHEMAS_DIFFER = "F042";
    OUTPUT_NOT_TAKEN = "F043";
    DISCARD_OF_TAKEN = "F044";
    NO_SUCH_OUTPUT = "F045";
    NO_EVENT_TIME = "F046";
    OUTPUT_INTO_OPERATOR = "F047";
    CONTRADICTION = "F050";
    BAD_AGGREGATE = "F051";
    AGGREGATE_TYPE = "F052";
    FLOAT_SUM = "F053";
    OWNED_PROPERTY = "F054";
    NO_EFFECT = "F055";
    BAD_TABLE_LAYOUT = "F056";
    TABLE_DISAGREEMENT = "F057";
    EXCLUSIVE_KEYS = "F058";
    LATER_GATE = "F101";
    LATER_UPSERT = "F102";
    LATER_SINK = "F103";
    LATER_FORMAT = "F104";
    LATER_SOURCE = "F105";
    LATER_START = "F106";
    LATER_ALLOWED_LATENESS = "F107";
    LATER_WINDOW_OVER_WINDOW = "F108";
    LATER_REWIND = "F109";
    NO_FLINK_FORM = "F201";
}
