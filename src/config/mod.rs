//! The pipeline file: read, checked, explained.
//!
//! Doesn't know: how anything runs. Keeps: whatever is refused is refused here, before anything starts, with file, line and column.
pub mod model;
