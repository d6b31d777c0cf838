//! Figures of this surface alone.

use nilometer_service::Metric;

pub(crate) const CONNECTIONS: Metric = Metric {
    name: "tstorage_connections",
    help: "Connections of TStorage's clients that are open.",
};
pub(crate) const WRITTEN: Metric = Metric {
    name: "tstorage_records_written_total",
    help: "Records of TStorage's clients that were stored.",
};
pub(crate) const UNREACHABLE: Metric = Metric {
    name: "tstorage_records_unreachable_total",
    help: "Records of TStorage's clients with a largest key component, which no request reaches; they are not stored.",
};
pub(crate) const READ: Metric = Metric {
    name: "tstorage_records_read_total",
    help: "Records answered to TStorage's clients.",
};
