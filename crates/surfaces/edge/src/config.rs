//! Settings of the surface. An error that a limit causes names the setting: `edge-` and the field's name with hyphens.

use nilometer_service::{DeviceSecret, RevokedKeys};

/// Who may send pages, where their rows go, and limits of a request.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// What the keys of devices are derived from. `None` = a device logs in as every other client.
    pub secret: Option<DeviceSecret>,
    /// Keys of devices that do not count any more.
    pub revoked: RevokedKeys,
    /// Databases that requests with a signature may write to.
    pub databases: Vec<String>,
    /// The tag that says which device a series is of.
    pub device_tag: String,
    /// Whether pages are kept as they are, until compaction makes rows of them; else their rows are kept.
    pub keep_pages: bool,
    /// Bytes of a request's pages.
    pub body_bytes_max: usize,
    /// Bytes that the rows of a request take, by what its pages say of themselves before they are decoded.
    pub rows_bytes_max: usize,
    /// Tables that a request writes to.
    pub tables_max: usize,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            secret: None,
            revoked: RevokedKeys::default(),
            databases: vec!["edge".to_owned()],
            device_tag: "device".to_owned(),
            keep_pages: true,
            body_bytes_max: 1 << 20,
            rows_bytes_max: 64 << 20,
            tables_max: 256,
        }
    }
}
