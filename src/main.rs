//! The `floodmark` program: parses the command line and calls the command.
fn main() {}
