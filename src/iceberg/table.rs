//! The table as the pipeline file wants it: made when missing, checked when present.
//!
//! Doesn't know: catalogs, marks. Keeps: columns are matched by name to the table's field ids; a table that differs by more than nullable
//! columns is refused, and the difference is named.
//! Tested: tests.rs beside it.
use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::cast;
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, SchemaRef as ArrowSchemaRef};
use floodmark_pipeline::schema::{Field, FieldType, Schema};
use iceberg::spec::{
    FormatVersion, NestedField, NestedFieldRef, NullOrder, PrimitiveType, Schema as IcebergSchema, SortDirection,
    SortOrder, TableMetadata, Transform as IcebergTransform, Type, UnboundPartitionSpec,
};
use iceberg::{TableCreation, TableRequirement, TableUpdate};

use crate::config::model::{IcebergConfig, PartitionField, SortField, Transform};

/// Written into tables that we make, unless the pipeline file says otherwise.
const DEFAULT_PROPERTIES: [(&str, &str); 2] =
    [("write.parquet.compression-codec", "zstd"), ("write.parquet.compression-level", "1")];

/// What the table is to be made with. The error says what can't be.
pub fn creation(config: &IcebergConfig, schema: &Schema) -> Result<TableCreation, String> {
    let fields = schema.fields.iter().zip(1..).map(|(field, id)| nested(field, id)).collect::<Result<Vec<_>, _>>()?;
    let fields = IcebergSchema::builder().with_fields(fields).build().map_err(|e| e.to_string())?;
    let mut properties: HashMap<_, _> =
        DEFAULT_PROPERTIES.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    properties.extend(config.properties.iter().map(|(k, v)| (k.clone(), v.clone())));
    Ok(TableCreation::builder()
        .name(config.table.clone())
        .partition_spec(partition_spec(&fields, &config.partition)?)
        .sort_order(sort_order(&fields, &config.sort)?)
        .schema(fields)
        .properties(properties)
        .format_version(FormatVersion::V2)
        .build())
}

/// Compares the table with the pipeline file. Gives the nullable columns that the table lacks, or the difference that can't be bridged.
/// Without `partition` or `sort` in the pipeline file the table's own are followed.
pub fn check(metadata: &TableMetadata, config: &IcebergConfig, schema: &Schema) -> Result<Vec<Field>, String> {
    if metadata.format_version() != FormatVersion::V2 {
        return Err(format!("it is a table of format {:?}, and only format 2 is written", metadata.format_version()));
    }
    let mut differences = Vec::new();
    let mut missing = Vec::new();
    for field in &schema.fields {
        match metadata.current_schema().field_by_name(&field.name) {
            None if field.nullable => missing.push(field.clone()),
            None => differences.push(format!(
                "column `{}` is not in the table and can't be added, since it may not be null",
                field.name
            )),
            Some(found) => differences.extend(column_difference(field, found)?),
        }
    }
    for found in metadata.current_schema().as_struct().fields() {
        if found.required && schema.field(&found.name).is_none() {
            differences.push(format!("column `{}` is required in the table and not in the pipeline file", found.name));
        }
    }
    differences.extend(partition_difference(metadata, &config.partition));
    differences.extend(sort_difference(metadata, &config.sort));
    if differences.is_empty() { Ok(missing) } else { Err(differences.join("; ")) }
}

/// Adds nullable columns to the table as it is now.
pub fn add_columns(
    metadata: &TableMetadata,
    missing: &[Field],
) -> Result<(Vec<TableRequirement>, Vec<TableUpdate>), String> {
    let current = metadata.current_schema();
    let last = metadata.last_column_id();
    let added = missing.iter().zip(last + 1..).map(|(field, id)| nested(field, id)).collect::<Result<Vec<_>, _>>()?;
    let schema_id = metadata.schemas_iter().map(|s| s.schema_id()).max().unwrap_or_default() + 1;
    let wider = current.as_ref().clone().into_builder().with_fields(added).with_schema_id(schema_id);
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: current.schema_id() },
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: last },
    ];
    let updates = vec![
        TableUpdate::AddSchema { schema: wider.build().map_err(|e| e.to_string())? },
        TableUpdate::SetCurrentSchema { schema_id: -1 },
    ];
    Ok((requirements, updates))
}

/// A batch as the table's columns: by name, in the table's order and Arrow types, null where the batch has no such column.
pub fn align(batch: &RecordBatch, table: &ArrowSchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = table.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) if column.data_type() == field.data_type() => Ok(column.clone()),
        Some(column) => cast(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(table.clone(), columns.collect::<Result<_, _>>()?, &options)
}

fn nested(field: &Field, id: i32) -> Result<NestedFieldRef, String> {
    let ty = Type::Primitive(primitive(field)?);
    Ok(Arc::new(NestedField::new(id, &field.name, ty, !field.nullable)))
}

fn primitive(field: &Field) -> Result<PrimitiveType, String> {
    Ok(match field.ty {
        FieldType::Bool => PrimitiveType::Boolean,
        FieldType::Int32 => PrimitiveType::Int,
        FieldType::Int64 => PrimitiveType::Long,
        FieldType::Float64 => PrimitiveType::Double,
        FieldType::Decimal { precision, scale } => {
            let scale =
                u32::try_from(scale).map_err(|_| format!("column `{}`: Iceberg has no {}", field.name, field.ty))?;
            PrimitiveType::Decimal { precision: precision.into(), scale }
        }
        FieldType::String => PrimitiveType::String,
        FieldType::Binary => PrimitiveType::Binary,
        FieldType::Date => PrimitiveType::Date,
        FieldType::Timestamp { utc: true, .. } => PrimitiveType::Timestamptz,
        FieldType::Timestamp { utc: false, .. } => PrimitiveType::Timestamp,
    })
}

fn column_difference(field: &Field, found: &NestedField) -> Result<Option<String>, String> {
    let wanted = Type::Primitive(primitive(field)?);
    if wanted == *found.field_type && field.nullable != found.required {
        return Ok(None);
    }
    let spelled = |ty: &Type, required: bool| format!("{ty}{}", if required { "" } else { "?" });
    let here = spelled(&wanted, !field.nullable);
    let there = spelled(&found.field_type, found.required);
    Ok(Some(format!("column `{}` is {here} in the pipeline file and {there} in the table", field.name)))
}

fn field_id(schema: &IcebergSchema, column: &str) -> Result<i32, String> {
    schema.field_id_by_name(column).ok_or_else(|| format!("column `{column}` is not among those of the table"))
}

fn transform(transform: Transform) -> IcebergTransform {
    match transform {
        Transform::Identity => IcebergTransform::Identity,
        Transform::Year => IcebergTransform::Year,
        Transform::Month => IcebergTransform::Month,
        Transform::Day => IcebergTransform::Day,
        Transform::Hour => IcebergTransform::Hour,
        Transform::Bucket(n) => IcebergTransform::Bucket(n),
        Transform::Truncate(width) => IcebergTransform::Truncate(width),
    }
}

/// Named as Iceberg's own builders do.
fn partition_name(field: &PartitionField) -> String {
    let suffix = match field.transform {
        Transform::Identity => "",
        Transform::Year => "_year",
        Transform::Month => "_month",
        Transform::Day => "_day",
        Transform::Hour => "_hour",
        Transform::Bucket(_) => "_bucket",
        Transform::Truncate(_) => "_trunc",
    };
    format!("{}{suffix}", field.column)
}

fn partition_spec(schema: &IcebergSchema, partition: &[PartitionField]) -> Result<UnboundPartitionSpec, String> {
    let mut spec = UnboundPartitionSpec::builder().with_spec_id(0);
    for field in partition {
        let source = field_id(schema, &field.column)?;
        spec = spec
            .add_partition_field(source, partition_name(field), transform(field.transform))
            .map_err(|e| e.to_string())?;
    }
    let spec = spec.build();
    spec.clone().bind(schema.clone()).map_err(|e| format!("it can't be partitioned so: {e}"))?;
    Ok(spec)
}

fn sort_order(schema: &IcebergSchema, sort: &[SortField]) -> Result<SortOrder, String> {
    let mut order = SortOrder::builder();
    for field in sort {
        order.with_sort_field(iceberg::spec::SortField {
            source_id: field_id(schema, &field.column)?,
            transform: IcebergTransform::Identity,
            direction: if field.descending { SortDirection::Descending } else { SortDirection::Ascending },
            null_order: if field.nulls_last { NullOrder::Last } else { NullOrder::First },
        });
    }
    if !sort.is_empty() {
        order.with_order_id(1);
    }
    order.build(schema).map_err(|e| format!("it can't be sorted so: {e}"))
}

fn partition_difference(metadata: &TableMetadata, wanted: &[PartitionField]) -> Option<String> {
    let name = |id| metadata.current_schema().name_by_field_id(id).unwrap_or("?").to_owned();
    let fields = metadata.default_partition_spec().fields().iter().filter(|f| f.transform != IcebergTransform::Void);
    let found: Vec<_> = fields.map(|f| (name(f.source_id), f.transform)).collect();
    let wanted: Vec<_> = wanted.iter().map(|f| (f.column.clone(), transform(f.transform))).collect();
    if wanted.is_empty() || wanted == found {
        return None;
    }
    let spelled = |fields: &[(String, IcebergTransform)]| {
        let parts: Vec<_> = fields.iter().map(|(column, t)| format!("{t}({column})")).collect();
        format!("[{}]", parts.join(", "))
    };
    Some(format!(
        "it is partitioned by {} in the pipeline file and by {} in the table",
        spelled(&wanted),
        spelled(&found)
    ))
}

fn sort_difference(metadata: &TableMetadata, wanted: &[SortField]) -> Option<String> {
    if wanted.is_empty() {
        return None;
    }
    let found = &metadata.default_sort_order().fields;
    let Ok(order) = sort_order(metadata.current_schema(), wanted) else {
        return Some("the pipeline file sorts by a column that the table doesn't have".to_owned());
    };
    let spelled = |fields: &[iceberg::spec::SortField]| {
        let name = |id| metadata.current_schema().name_by_field_id(id).unwrap_or("?").to_owned();
        let one = |f: &iceberg::spec::SortField| {
            let column = if f.transform == IcebergTransform::Identity {
                name(f.source_id)
            } else {
                format!("{}({})", f.transform, name(f.source_id))
            };
            format!("{column} {} nulls {}", f.direction, f.null_order)
        };
        format!("[{}]", fields.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    (order.fields != *found).then(|| {
        format!(
            "it is sorted by {} in the pipeline file and by {} in the table",
            spelled(&order.fields),
            spelled(found)
        )
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
