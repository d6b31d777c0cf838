//! The benchmark: workloads, the loader, the queries and the reports.
//!
//! Does: make the data sets of the Time Series Benchmark Suite at any scale ([`workload`], [`generate`]), send them to a
//! database over HTTP and time it ([`load`]), ask the suite's questions and time those ([`queries`]), run TStorage's benchmark
//! over its own protocol ([`tstorage`](mod@tstorage)), run the library for microcontrollers on a simulated flash
//! ([`edge`](mod@edge)), ask hypertables over PostgreSQL's protocol ([`hypertable`](mod@hypertable)), and write down what was measured on which machine ([`report`]).
//!
//! Does not: link the engine. Every database, Nilometer included, is spoken to as a client would, so that no figure here
//! leaves out a cost that users pay; the library for microcontrollers has no server, and is linked. It prints nothing either; the binary does that.
//!
//! The suite is timescale/tsbs; what we take from it is its schemas, value sets and distributions, so that figures can be
//! set beside published ones. The random numbers are our own, so the points are not the suite's points.
//!
//! Next: [`batch_file`] for what a generated file looks like, [`load`] for what the clock covers.
//!
//! ```
//! use nilometer_bench::workload::{Spec, Workload};
//!
//! let spec = Spec {
//!     workload: Workload::CpuOnly,
//!     hosts: 2,
//!     start_ns: 1_451_606_400_000_000_000,
//!     end_ns: 1_451_606_410_000_000_000,
//!     interval_ns: 10_000_000_000,
//!     seed: 123,
//! };
//! let mut points = spec.points()?;
//! let mut text = Vec::new();
//! assert_eq!(points.write_batch(1000, &mut text), 2);
//! assert!(text.starts_with(b"cpu,hostname=host_0,region="));
//! assert!(text.ends_with(b"i 1451606400000000000\n"));
//! # Ok::<(), nilometer_bench::Error>(())
//! ```

pub mod batch_file;
pub mod calendar;
pub mod edge;
mod error;
pub mod generate;
mod http;
pub mod hypertable;
pub mod load;
pub mod queries;
pub mod report;
mod source;
pub mod tstorage;
pub mod workload;

pub use error::{Error, Result};
pub use generate::{FileFormat, Generated, generate};
pub use load::{LoadOptions, LoadReport, load};
