//! Types and schemas of rows, and how they look as Arrow.
//!
//! Doesn't know: where a field comes from (JSON path, Kafka metadata): that is the decoder's business.
//! Keeps: one type has one Arrow type everywhere. All timestamps are microseconds in memory; `ms` and `us` differ in how a number is read.
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef, TimeUnit};

/// Time zone string of UTC timestamps, as Iceberg's Arrow mapping spells it.
pub const UTC: &str = "+00:00";

/// A type of the pipeline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    Bool,
    Int32,
    Int64,
    Float64,
    Decimal { precision: u8, scale: i8 },
    String,
    Binary,
    Date,
    Timestamp { unit: TimestampUnit, utc: bool },
}

/// How a number in the input is read as a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampUnit {
    Ms,
    Us,
}

impl FieldType {
    pub const TIMESTAMP_MS: Self = Self::Timestamp { unit: TimestampUnit::Ms, utc: true };

    pub fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::String => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp { utc, .. } => DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| UTC.into())),
        }
    }
}

impl std::fmt::Display for FieldType {
    /// The spelling of the pipeline file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::String => f.write_str("string"),
            Self::Binary => f.write_str("binary"),
            Self::Date => f.write_str("date"),
            Self::Timestamp { unit, utc } => {
                let unit = if *unit == TimestampUnit::Ms { "ms" } else { "us" };
                write!(f, "timestamp_{unit}{}", if *utc { "" } else { "_ntz" })
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub name: String,
    pub ty: FieldType,
    pub nullable: bool,
}

impl Field {
    pub fn required(name: impl Into<String>, ty: FieldType) -> Self {
        Self { name: name.into(), ty, nullable: false }
    }

    pub fn nullable(name: impl Into<String>, ty: FieldType) -> Self {
        Self { name: name.into(), ty, nullable: true }
    }
}

impl std::fmt::Display for Field {
    /// `name type`, with `?` where it may be null.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{}", self.name, self.ty, if self.nullable { "?" } else { "" })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schema {
    pub fields: Vec<Field>,
}

impl Schema {
    pub fn new(fields: Vec<Field>) -> Self {
        Self { fields }
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    pub fn arrow(&self) -> SchemaRef {
        let fields: Vec<_> = self.fields.iter().map(|f| ArrowField::new(&f.name, f.ty.arrow(), f.nullable)).collect();
        Arc::new(ArrowSchema::new(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_spelled_as_the_pipeline_file_spells_them() {
        let timestamp = |unit, utc| FieldType::Timestamp { unit, utc };
        for (ty, spelling) in [
            (FieldType::Bool, "bool"),
            (FieldType::Int32, "int32"),
            (FieldType::Int64, "int64"),
            (FieldType::Float64, "float64"),
            (FieldType::Decimal { precision: 12, scale: 2 }, "decimal(12,2)"),
            (FieldType::String, "string"),
            (FieldType::Binary, "binary"),
            (FieldType::Date, "date"),
            (timestamp(TimestampUnit::Ms, true), "timestamp_ms"),
            (timestamp(TimestampUnit::Us, true), "timestamp_us"),
            (timestamp(TimestampUnit::Ms, false), "timestamp_ms_ntz"),
            (timestamp(TimestampUnit::Us, false), "timestamp_us_ntz"),
        ] {
            assert_eq!(ty.to_string(), spelling);
            assert_eq!(Field::required("f", ty).to_string(), format!("f {spelling}"));
            assert_eq!(Field::nullable("f", ty).to_string(), format!("f {spelling}?"));
        }
    }

    #[test]
    fn fields_are_found_by_name_and_stay_in_order_as_arrow() {
        let (user, cents) = (Field::required("user", FieldType::String), Field::nullable("cents", FieldType::Int64));
        let schema = Schema::new(vec![user.clone(), cents.clone()]);
        assert_eq!((schema.index_of("user"), schema.index_of("cents"), schema.index_of("x")), (Some(0), Some(1), None));
        assert_eq!((schema.field("user"), schema.field("cents"), schema.field("x")), (Some(&user), Some(&cents), None));
        let arrow = schema.arrow();
        let fields: Vec<_> =
            arrow.fields().iter().map(|f| (f.name().as_str(), f.data_type(), f.is_nullable())).collect();
        assert_eq!(fields, [("user", &DataType::Utf8, false), ("cents", &DataType::Int64, true)]);
    }
}
