//! Settings of the native surface. An error that a limit causes names the setting: the field's name with hyphens.

/// Limits of answers.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Rows of an answer.
    pub answer_rows_max: usize,
    /// Rows of an answer in the format `pretty`, which is kept whole in memory.
    pub answer_pretty_rows_max: usize,
    /// Bytes of an answer that leave together. Up to here an error still gets a status of its own.
    #[doc(hidden)]
    pub answer_chunk_bytes: usize,
}

impl Default for NativeConfig {
    fn default() -> Self {
        Self {
            answer_rows_max: 10_000_000,
            answer_pretty_rows_max: 10_000,
            answer_chunk_bytes: 256 << 10,
        }
    }
}
