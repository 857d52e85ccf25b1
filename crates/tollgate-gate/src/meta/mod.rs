//! The gate's own tools.

mod read_result;

pub(crate) use read_result::{READ_RESULT, ReadResult};
