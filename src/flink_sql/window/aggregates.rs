//! Aggregates with the result types that floodmark has.
//!
//! Flink's SUM(BIGINT) wraps silently, as its cast from DECIMAL to BIGINT does. So integers are summed as decimals, compared with the range of the type, and
//! cast only where they fit. A DECIMAL divided by a BIGINT has just our type of an average, rounded half up.
//! Doesn't know: windows. Tested: here, tests/flink_sql.rs.
use floodmark_pipeline::plan::{Aggregate, Function, Window};
use floodmark_pipeline::schema::{FieldType, Schema};

use crate::flink_sql::job::Job;
use crate::flink_sql::sql::{name, text, type_of};

#[derive(Default)]
pub struct Aggregates {
    /// Behind the keys, where rows are grouped.
    pub computed: Vec<String>,
    /// The columns of the result.
    pub results: Vec<String>,
    pub misfits: Vec<Misfit>,
}

/// What makes a result not fit its type, and what is said of it.
pub struct Misfit {
    pub condition: String,
    pub detail: String,
}

impl Aggregates {
    pub fn of(job: &Job<'_>, node: &str, window: &Window, input: &Schema) -> Aggregates {
        let mut all = Aggregates::default();
        for (place, aggregate) in window.aggregates.iter().enumerate() {
            all.add(place, aggregate, input);
        }
        let sums_decimals = |a: &Aggregate| {
            let column = a.column.map(|c| input.fields[c].ty);
            matches!((a.function, column), (Function::Sum | Function::Avg, Some(FieldType::Decimal { .. })))
        };
        if window.aggregates.iter().any(sums_decimals) {
            job.note(node, "aggregates", "a sum of decimals beyond 38 digits goes wrong without a word. With floodmark its window goes to the errors output");
        }
        if !all.misfits.is_empty() {
            job.note(node, "aggregates", "integers are summed as DECIMAL and compared with the range of BIGINT: Flink's SUM(BIGINT) and its cast to BIGINT wrap silently");
        }
        all
    }

    fn add(&mut self, place: usize, aggregate: &Aggregate, input: &Schema) {
        let result = name(&aggregate.name);
        let Some(field) = aggregate.column.map(|column| &input.fields[column]) else {
            self.computed.push(format!("COUNT(*) AS {result}"));
            self.results.push(result);
            return;
        };
        let column = name(&field.name);
        let exact = match field.ty {
            FieldType::Int32 | FieldType::Int64 => format!("CAST({column} AS DECIMAL(19, 0))"),
            _ => column.clone(),
        };
        let ty = type_of(aggregate.result);
        let (computed, value) = match aggregate.function {
            Function::Count => (format!("COUNT({column})"), result.clone()),
            Function::Min => (format!("MIN({column})"), result.clone()),
            Function::Max => (format!("MAX({column})"), result.clone()),
            Function::Sum => (format!("SUM({exact})"), format!("CAST({result} AS {ty})")),
            Function::Avg => (format!("SUM({exact}) / COUNT({column})"), format!("CAST({result} AS {ty})")),
        };
        self.computed.push(format!("{computed} AS {result}"));
        self.results.push(if value == result { result.clone() } else { format!("{value} AS {result}") });
        if aggregate.function == Function::Sum && aggregate.result == FieldType::Int64 {
            let count = name(&format!("_count_{place}"));
            self.computed.push(format!("COUNT({column}) AS {count}"));
            self.misfits.push(Misfit {
                condition: format!(
                    "{result} IS NOT NULL AND {result} NOT BETWEEN CAST('{}' AS DECIMAL(38, 0)) AND CAST('{}' AS DECIMAL(38, 0))",
                    i64::MIN,
                    i64::MAX
                ),
                detail: format!(
                    "{} || CAST({result} AS STRING) || ' over ' || CAST({count} AS STRING) || {}",
                    text("sum: a total of "),
                    text(" values doesn't fit int64")
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use floodmark_pipeline::schema::Field;

    use super::*;

    fn of(function: Function, ty: FieldType, result: FieldType) -> Aggregates {
        let input = Schema::new(vec![Field::nullable("v", ty)]);
        let mut all = Aggregates::default();
        all.add(0, &Aggregate { name: "r".into(), function, column: Some(0), result }, &input);
        all
    }

    #[test]
    fn integers_are_summed_exactly_and_compared() {
        let sum = of(Function::Sum, FieldType::Int64, FieldType::Int64);
        assert_eq!(sum.computed[0], "SUM(CAST(`v` AS DECIMAL(19, 0))) AS `r`");
        assert_eq!(sum.results, ["CAST(`r` AS BIGINT) AS `r`"]);
        assert!(sum.misfits[0].condition.contains("NOT BETWEEN CAST('-9223372036854775808'"));
    }

    #[test]
    fn an_average_is_a_decimal() {
        let result = FieldType::Decimal { precision: 38, scale: 6 };
        let avg = of(Function::Avg, FieldType::Int32, result);
        assert_eq!(avg.computed, ["SUM(CAST(`v` AS DECIMAL(19, 0))) / COUNT(`v`) AS `r`"]);
        assert_eq!(avg.results, ["CAST(`r` AS DECIMAL(38, 6)) AS `r`"]);
        assert!(avg.misfits.is_empty());
    }

    #[test]
    fn largest_and_smallest_keep_their_type() {
        let max = of(Function::Max, FieldType::Date, FieldType::Date);
        assert_eq!((max.computed[0].as_str(), max.results[0].as_str()), ("MAX(`v`) AS `r`", "`r`"));
    }
}
