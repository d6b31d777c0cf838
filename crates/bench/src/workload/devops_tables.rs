//! The tables of the devops workload beside `cpu`: their tags, their fields, and how those move.
//!
//! Does: list what the suite lists, and write one row of one host. Does not: know the order of rows.
//!
//! Integer fields are counters that only grow, values that walk between bounds, or values that drift. `disk` and `mem`
//! compute their fields from one walk and from three.

use std::io::Write;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::hosts::pick;
use super::walk::{Walk, cut};
use Motion::{Bounded, Counter, Drift, Memory};

/// How an integer field moves; the steps are normal, with the mean given and a deviation of 1.
#[derive(Debug, Clone, Copy)]
enum Motion {
    Counter(f64),
    /// Between 0 and a bound, from 0.
    Bounded(f64, f64),
    /// Between 0 and 16 GiB, from the middle.
    Memory,
    Drift(f64),
}

impl Motion {
    fn walk(self) -> Walk {
        match self {
            Self::Counter(mean) => Walk::counter(mean),
            Self::Bounded(mean, max) => Walk::normal(mean, 1.0, [0.0, max], 0.0),
            Self::Memory => Walk::normal(50.0, 1.0, [0.0, 16.0 * GIB], 8.0 * GIB),
            Self::Drift(mean) => Walk::drift(mean),
        }
    }
}

type Field = (&'static str, Motion);

const GIB: f64 = 1_073_741_824.0;
const DISK_BYTES: i64 = 1 << 40;
const INODE_BYTES: i64 = 4096;
const FILE_SYSTEMS: [&str; 3] = ["ext3", "ext4", "btrfs"];
const MEMORY_GIB: [f64; 3] = [8.0, 12.0, 16.0];

const DISKIO: &[Field] = &[
    ("reads", Counter(50.0)),
    ("writes", Counter(50.0)),
    ("read_bytes", Counter(100.0)),
    ("write_bytes", Counter(100.0)),
    ("read_time", Counter(5.0)),
    ("write_time", Counter(5.0)),
    ("io_time", Counter(5.0)),
];

const KERNEL: &[Field] = &[
    ("interrupts", Counter(5.0)),
    ("context_switches", Counter(5.0)),
    ("processes_forked", Counter(5.0)),
    ("disk_pages_in", Counter(5.0)),
    ("disk_pages_out", Counter(5.0)),
];

const NET: &[Field] = &[
    ("bytes_sent", Counter(50.0)),
    ("bytes_recv", Counter(50.0)),
    ("packets_sent", Counter(50.0)),
    ("packets_recv", Counter(50.0)),
    ("err_in", Counter(5.0)),
    ("err_out", Counter(5.0)),
    ("drop_in", Counter(5.0)),
    ("drop_out", Counter(5.0)),
];

const NGINX: &[Field] = &[
    ("accepts", Counter(5.0)),
    ("active", Bounded(5.0, 100.0)),
    ("handled", Counter(5.0)),
    ("reading", Bounded(5.0, 100.0)),
    ("requests", Counter(5.0)),
    ("waiting", Bounded(5.0, 100.0)),
    ("writing", Bounded(5.0, 100.0)),
];

const POSTGRESQL: &[Field] = &[
    ("numbackends", Bounded(5.0, 1000.0)),
    ("xact_commit", Bounded(5.0, 1000.0)),
    ("xact_rollback", Bounded(5.0, 1000.0)),
    ("blks_read", Bounded(5.0, 1000.0)),
    ("blks_hit", Bounded(5.0, 1000.0)),
    ("tup_returned", Bounded(5.0, 1000.0)),
    ("tup_fetched", Bounded(5.0, 1000.0)),
    ("tup_inserted", Bounded(5.0, 1000.0)),
    ("tup_updated", Bounded(5.0, 1000.0)),
    ("tup_deleted", Bounded(5.0, 1000.0)),
    ("conflicts", Bounded(5.0, 1000.0)),
    ("temp_files", Bounded(5.0, 1000.0)),
    ("temp_bytes", Bounded(1024.0, GIB)),
    ("deadlocks", Bounded(5.0, 1000.0)),
    ("blk_read_time", Bounded(5.0, 1000.0)),
    ("blk_write_time", Bounded(5.0, 1000.0)),
];

const REDIS: &[Field] = &[
    ("total_connections_received", Counter(5.0)),
    ("expired_keys", Counter(50.0)),
    ("evicted_keys", Counter(50.0)),
    ("keyspace_hits", Counter(50.0)),
    ("keyspace_misses", Counter(50.0)),
    ("instantaneous_ops_per_sec", Drift(1.0)),
    ("instantaneous_input_kbps", Drift(1.0)),
    ("instantaneous_output_kbps", Drift(1.0)),
    ("connected_clients", Bounded(50.0, 10_000.0)),
    ("used_memory", Memory),
    ("used_memory_rss", Memory),
    ("used_memory_peak", Memory),
    ("used_memory_lua", Memory),
    ("rdb_changes_since_last_save", Bounded(50.0, 10_000.0)),
    ("sync_full", Bounded(5.0, 1000.0)),
    ("sync_partial_ok", Bounded(5.0, 1000.0)),
    ("sync_partial_err", Bounded(5.0, 1000.0)),
    ("pubsub_channels", Bounded(5.0, 1000.0)),
    ("pubsub_patterns", Bounded(5.0, 1000.0)),
    ("latest_fork_usec", Bounded(5.0, 1000.0)),
    ("connected_slaves", Bounded(5.0, 1000.0)),
    ("master_repl_offset", Bounded(5.0, 1000.0)),
    ("repl_backlog_active", Bounded(5.0, 1000.0)),
    ("repl_backlog_size", Bounded(5.0, 1000.0)),
    ("repl_backlog_histlen", Bounded(5.0, 1000.0)),
    ("mem_fragmentation_ratio", Bounded(5.0, 100.0)),
    ("used_cpu_sys", Bounded(5.0, 1000.0)),
    ("used_cpu_user", Bounded(5.0, 1000.0)),
    ("used_cpu_sys_children", Bounded(5.0, 1000.0)),
    ("used_cpu_user_children", Bounded(5.0, 1000.0)),
];

/// A table of the workload.
#[derive(Debug, Clone, Copy)]
pub(super) enum Table {
    DiskIo,
    Disk,
    Kernel,
    Mem,
    Net,
    Nginx,
    Postgresql,
    Redis,
}

/// The tables in the order in which a host reports them, after `cpu`.
pub(super) const TABLES: [Table; 8] = [
    Table::DiskIo,
    Table::Disk,
    Table::Kernel,
    Table::Mem,
    Table::Net,
    Table::Nginx,
    Table::Postgresql,
    Table::Redis,
];

impl Table {
    /// As it stands in line protocol.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DiskIo => "diskio",
            Self::Disk => "disk",
            Self::Kernel => "kernel",
            Self::Mem => "mem",
            Self::Net => "net",
            Self::Nginx => "nginx",
            // The suite's own spelling.
            Self::Postgresql => "postgresl",
            Self::Redis => "redis",
        }
    }

    /// Fields that move by themselves.
    const fn fields(self) -> &'static [Field] {
        match self {
            Self::DiskIo => DISKIO,
            Self::Kernel => KERNEL,
            Self::Net => NET,
            Self::Nginx => NGINX,
            Self::Postgresql => POSTGRESQL,
            Self::Redis => REDIS,
            Self::Disk | Self::Mem => &[],
        }
    }

    /// Values of a row.
    pub(super) const fn row_values(self) -> u64 {
        match self {
            Self::Disk => 7,
            Self::Mem => 9,
            Self::Kernel | Self::Redis => self.fields().len() as u64 + 1,
            _ => self.fields().len() as u64,
        }
    }

    /// Its own tags, from the comma after those of the host.
    fn draw_tags(self, random: &mut Xoshiro256PlusPlus) -> String {
        let server = |name, random: &mut Xoshiro256PlusPlus| {
            let port = random.random_range(1024..21_024);
            format!(
                ",port={port},server={name}_{}",
                random.random_range(0..100_000)
            )
        };
        match self {
            Self::DiskIo => {
                let [a, b, c]: [u32; 3] = std::array::from_fn(|_| random.random_range(0..1000));
                format!(",serial={a:03}-{b:03}-{c:03}")
            }
            Self::Disk => {
                let path = random.random_range(0..10);
                format!(
                    ",path=/dev/sda{path},fstype={}",
                    pick(&FILE_SYSTEMS, random)
                )
            }
            Self::Net => format!(",interface=eth{}", random.random_range(0..4)),
            Self::Nginx => server("nginx", random),
            Self::Redis => server("redis", random),
            Self::Kernel | Self::Mem | Self::Postgresql => String::new(),
        }
    }
}

/// What reports the rows of one table of one host.
#[derive(Debug)]
pub(super) struct Agent {
    table: Table,
    /// Table and tags.
    prefix: String,
    walks: Vec<Walk>,
    /// What never changes: the boot time of `kernel`, the total of `mem`.
    constant: i64,
}

impl Agent {
    /// `host_tags` begin with a comma.
    pub(super) fn new(table: Table, host_tags: &str, random: &mut Xoshiro256PlusPlus) -> Self {
        let prefix = format!("{}{host_tags}{}", table.name(), table.draw_tags(random));
        let (mut walks, mut constant) = (Vec::new(), 0);
        match table {
            Table::Disk => {
                let bytes = DISK_BYTES as f64;
                walks.push(Walk::normal(50.0, 1.0, [0.0, bytes], bytes / 2.0));
            }
            Table::Mem => {
                let total = GIB * MEMORY_GIB[random.random_range(0..MEMORY_GIB.len())];
                constant = cut(total);
                for _ in 0..3 {
                    let start = random.random::<f64>() * total;
                    walks.push(Walk::normal(0.0, total / 64.0, [0.0, total], start));
                }
            }
            table => {
                if matches!(table, Table::Kernel) {
                    constant = random.random_range(0..240);
                }
                walks.extend(table.fields().iter().map(|(_, motion)| motion.walk()));
            }
        }
        Self {
            table,
            prefix,
            walks,
            constant,
        }
    }

    /// Writes a row without its time and returns how many values it has.
    pub(super) fn write(&self, uptime_ns: i64, out: &mut Vec<u8>) -> u64 {
        out.extend_from_slice(self.prefix.as_bytes());
        let mut before = b' ';
        let mut integer = |name: &str, value: i64| {
            out.push(before);
            before = b',';
            write!(out, "{name}={value}i").expect("writing to memory does not fail");
        };
        match (self.table, self.walks.as_slice()) {
            (Table::Disk, [free]) => {
                let free = free.integer();
                let used = DISK_BYTES - free;
                let inodes = [DISK_BYTES / INODE_BYTES, free / INODE_BYTES];
                integer("total", DISK_BYTES);
                integer("free", free);
                integer("used", used);
                integer(
                    "used_percent",
                    cut(100.0 * (used as f64 / DISK_BYTES as f64)),
                );
                integer("inodes_total", inodes[0]);
                integer("inodes_free", inodes[1]);
                integer("inodes_used", inodes[0] - inodes[1]);
            }
            (Table::Mem, [used, cached, buffered]) => {
                let (total, used, buffered) = (self.constant, used.integer(), buffered.integer());
                let available = total - used;
                integer("total", total);
                integer("available", available);
                integer("used", used);
                // The suite says of itself that free memory is another thing than available memory.
                integer("free", available);
                integer("cached", cached.integer());
                integer("buffered", buffered);
                let percent = |part: i64| 100.0 * (part as f64 / total as f64);
                write!(
                    out,
                    ",used_percent={},available_percent={},buffered_percent={}",
                    percent(used),
                    percent(available),
                    100.0 * buffered as f64 / total as f64
                )
                .expect("writing to memory does not fail");
            }
            (table, walks) => {
                match table {
                    Table::Kernel => integer("boot_time", self.constant),
                    Table::Redis => integer("uptime_in_seconds", uptime_ns / 1_000_000_000),
                    _ => {}
                }
                for ((name, _), walk) in table.fields().iter().zip(walks) {
                    integer(name, walk.integer());
                }
            }
        }
        self.table.row_values()
    }

    /// The step to the next row.
    pub(super) fn advance(&mut self, random: &mut Xoshiro256PlusPlus) {
        for walk in &mut self.walks {
            walk.advance(random);
        }
    }
}
