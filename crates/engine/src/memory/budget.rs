//! The memory budget: one number, divided among what uses memory.
//!
//! Does: find out how much memory the machine gives this process, divide it, count what is in use, and refuse what
//! would pass a share with an error that names it. Does not: measure the allocator (users say what they hold), or free
//! anything: a cache asks for its limit and shrinks, writers help to flush.
//!
//! The shares, of the total; a use has less while the others leave less:
//!
//! | use | share | over it |
//! |---|---|---|
//! | head | 1/4 | writers help to flush; then writes are refused |
//! | index | 1/2 | new series and rows of relations are refused; the growth that reached it, a doubling of tables, may have passed it |
//! | compaction | a group of each input and one that is written | nothing: it is counted, and the others have less |
//! | query | 1/4 | the query ends with an error |
//! | batch | 1/4 | the writer helps to flush; then its body is refused |
//! | cache | 1/4 | the oldest entries go |
//!
//! They add up to more than the total on purpose: who has few series may have large queries. What holds is that all
//! uses together never take more than the total, the cache's giving way to the others'. The total is half of the memory
//! by default, because allocators, sockets and the kernel's page cache need the rest.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::read_system_text;
use crate::error::Error;

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryUse {
    /// Rows that are not in segments yet; those on their way into one count twice, because a flush copies them.
    Head,
    /// Directories and other parts of files that can be read again.
    Cache,
    /// Series and their tags, relations, keys of batches.
    Index,
    /// Compaction at work.
    Compaction,
    /// Queries at work.
    Query,
    /// New series of the bodies that are being read, until they are in the index.
    Batch,
}

impl MemoryUse {
    /// Every use, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Head,
        Self::Cache,
        Self::Index,
        Self::Compaction,
        Self::Query,
        Self::Batch,
    ];

    /// Its name in errors and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Cache => "cache",
            Self::Index => "index",
            Self::Compaction => "compaction",
            Self::Query => "query",
            Self::Batch => "batch",
        }
    }

    /// The share of the total, in eighths.
    fn eighths(self) -> u64 {
        match self {
            Self::Head | Self::Cache | Self::Query | Self::Batch => 2,
            Self::Index => 4,
            Self::Compaction => 1,
        }
    }

    /// What a person can do when the share is used up.
    fn remedy(self) -> &'static str {
        match self {
            Self::Head => "send smaller batches, or raise memory_bytes_max",
            Self::Cache => "raise memory_bytes_max",
            Self::Index => {
                "write fewer series, tables, columns or rows of relations, drop tables that are not needed, or raise memory_bytes_max"
            }
            Self::Compaction => "it is tried again; raise memory_bytes_max if it stays",
            Self::Query => "ask for less at once, or raise memory_bytes_max",
            Self::Batch => "send batches with fewer new series, or raise memory_bytes_max",
        }
    }
}

/// Half of the memory is the budget, by default.
const DEFAULT_PART: u64 = 2;
/// What is budgeted on a machine that does not say how much memory it has.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// A budget is at least this, whatever the machine says: with less not even an empty store works.
const TOTAL_BYTES_MIN: u64 = 8 << 20;

/// The budget of one store; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: u64,
    /// What the machine gives this process, as far as it says.
    machine: Option<u64>,
    used: [AtomicU64; MemoryUse::ALL.len()],
    refused: AtomicU64,
    /// The most that all uses had together.
    highest: AtomicU64,
}

impl MemoryBudget {
    /// A budget of `total` bytes; 0 = half of what the machine gives this process.
    pub fn new(total: u64) -> Self {
        let machine = machine_bytes(&read_system_text);
        let total = match total {
            0 => machine.unwrap_or(UNKNOWN_BYTES) / DEFAULT_PART,
            set => set,
        };
        Self {
            inner: Arc::new(Inner {
                total: total.max(TOTAL_BYTES_MIN),
                machine,
                used: Default::default(),
                refused: AtomicU64::new(0),
                highest: AtomicU64::new(0),
            }),
        }
    }

    /// Bytes for all uses together.
    pub fn total(&self) -> u64 {
        self.inner.total
    }

    /// Bytes that the machine gives this process, beyond which the system ends it; `None` where it does not say.
    pub fn machine(&self) -> Option<u64> {
        self.inner.machine
    }

    /// Bytes that a use may have now: its share, or what the others leave of the total if that is less. The cache
    /// counts for none of them, because it gives way.
    pub fn limit(&self, usage: MemoryUse) -> u64 {
        let share = self.inner.total / 8 * usage.eighths();
        let others = MemoryUse::ALL
            .into_iter()
            .filter(|other| *other != usage && *other != MemoryUse::Cache);
        let taken: u64 = others.map(|other| self.used(other)).sum();
        share.min(self.inner.total.saturating_sub(taken))
    }

    /// Bytes that a use has now.
    pub fn used(&self, usage: MemoryUse) -> u64 {
        self.counter(usage).load(Ordering::Relaxed)
    }

    /// Times that something was refused.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// The most that all uses had together, as far as it was reported or charged.
    pub fn highest(&self) -> u64 {
        self.inner.highest.load(Ordering::Relaxed)
    }

    fn note_highest(&self) {
        let used: u64 = MemoryUse::ALL.into_iter().map(|it| self.used(it)).sum();
        self.inner.highest.fetch_max(used, Ordering::Relaxed);
    }

    /// Takes memory for a use until the charge is dropped, or says why not.
    pub fn charge(&self, usage: MemoryUse, bytes: u64) -> Result<Charge, Error> {
        let mut charge = Charge {
            budget: self.clone(),
            usage,
            bytes: 0,
        };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Takes memory that cannot be refused, because the work makes memory or room on the disk free: the others then have
    /// less.
    pub fn take(&self, usage: MemoryUse, bytes: u64) -> Charge {
        self.counter(usage).fetch_add(bytes, Ordering::Relaxed);
        self.note_highest();
        Charge {
            budget: self.clone(),
            usage,
            bytes,
        }
    }

    /// Says that a use whose memory is counted elsewhere, such as the head's, has so much now. It is never refused
    /// here; who is about to make it grow asks [`Self::check`] first. A use is either reported or charged, not both.
    pub fn report(&self, usage: MemoryUse, bytes: u64) {
        self.counter(usage).store(bytes, Ordering::Relaxed);
        self.note_highest();
    }

    /// Whether a use may grow by `bytes` from `used`.
    pub fn check(&self, usage: MemoryUse, used: u64, bytes: u64) -> Result<(), Error> {
        let needed = used.saturating_add(bytes);
        let limit = self.limit(usage);
        if needed <= limit {
            return Ok(());
        }
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        Err(Error::Memory {
            usage: usage.name(),
            limit,
            needed,
            total: self.inner.total,
            remedy: usage.remedy(),
        })
    }

    fn counter(&self, usage: MemoryUse) -> &AtomicU64 {
        let [head, cache, index, compaction, query, batch] = &self.inner.used;
        match usage {
            MemoryUse::Head => head,
            MemoryUse::Cache => cache,
            MemoryUse::Index => index,
            MemoryUse::Compaction => compaction,
            MemoryUse::Query => query,
            MemoryUse::Batch => batch,
        }
    }
}

/// Memory of one use, given back when dropped.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    usage: MemoryUse,
    bytes: u64,
}

impl Charge {
    /// Takes more, or says why not; then it has what it had.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        let counter = self.budget.counter(self.usage);
        // Added first and taken back, so that two threads cannot both take the last bytes.
        let before = counter.fetch_add(bytes, Ordering::Relaxed);
        let outcome = self.budget.check(self.usage, before, bytes);
        match outcome {
            Ok(()) => {
                self.bytes += bytes;
                self.budget.note_highest();
            }
            Err(_) => drop(counter.fetch_sub(bytes, Ordering::Relaxed)),
        }
        outcome
    }

    /// Gives some back.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget
            .counter(self.usage)
            .fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Has so much from here on, more or less than before. It is never refused: who may not have more makes itself
    /// smaller first.
    pub(crate) fn set(&mut self, bytes: u64) {
        let counter = self.budget.counter(self.usage);
        match bytes.checked_sub(self.bytes) {
            Some(more) => counter.fetch_add(more, Ordering::Relaxed),
            None => counter.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.budget.note_highest();
        self.bytes = bytes;
    }

    /// What its use may have now; see [`MemoryBudget::limit`].
    pub fn limit(&self) -> u64 {
        self.budget.limit(self.usage)
    }

    /// What it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// Bytes of memory that this process may use, by all that the operating system says of it: the least of what the
/// machine has, what each control group above it is limited to, and the limit of its address space.
fn machine_bytes(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let host = read(Path::new("/proc/meminfo")).and_then(|text| host_bytes(&text));
    let space = read(Path::new("/proc/self/limits")).and_then(|text| address_space_bytes(&text));
    let groups = read(Path::new("/proc/self/cgroup")).and_then(|text| group_bytes(&text, read));
    [host, space, groups].into_iter().flatten().min()
}

/// `MemTotal:       24684084 kB`
fn host_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// `Max address space         unlimited            unlimited            bytes`: the first number is the one in force.
fn address_space_bytes(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The least limit of the groups in `/proc/self/cgroup` and of those above them. The lines are `0::/path` in version
/// 2, and `4:memory:/path` in version 1.
fn group_bytes(groups: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (roots, file): (&[&str], &str) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        // A container may be told its path on the host, which it does not see; the root that it sees is its own.
        let inside = path.trim_start_matches('/');
        for root in roots.iter().map(Path::new) {
            let start = root.join(inside);
            let above = start
                .ancestors()
                .take_while(|group| group.starts_with(root));
            let limits = above.filter_map(|group| read(&group.join(file))?.trim().parse().ok());
            least = least.into_iter().chain(limits).min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::thread;

    const MIB: u64 = 1 << 20;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let files: BTreeMap<&Path, &str> = files
            .iter()
            .map(|(path, text)| (Path::new(*path), *text))
            .collect();
        machine_bytes(&|path| files.get(path).map(|text| (*text).to_owned()))
    }

    const HOST: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       8388608 kB\nMemFree: 5 kB\n",
    );

    #[test]
    fn the_least_limit_of_the_machine_and_every_group_above_counts() {
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[HOST]), Some(8192 * MIB));
        let second = ("/proc/self/cgroup", "0::/a/b\n");
        let files = [
            HOST,
            second,
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/memory.max", "1073741824\n"),
        ];
        assert_eq!(machine(&files), Some(512 * MIB));
        let hidden = [HOST, second, ("/sys/fs/cgroup/memory.max", "134217728\n")];
        assert_eq!(
            machine(&hidden),
            Some(128 * MIB),
            "the group's own path is not visible"
        );
        let first = [
            HOST,
            (
                "/proc/self/cgroup",
                "9:name=systemd:/\n4:cpu,memory:/p/q\n0::/\n",
            ),
            (
                "/sys/fs/cgroup/memory/p/q/memory.limit_in_bytes",
                "134217728\n",
            ),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(machine(&first), Some(128 * MIB));
        let limited = [
            HOST,
            (
                "/proc/self/limits",
                "Limit   Soft Limit  Hard Limit  Units\nMax address space   268435456  unlimited  bytes\n",
            ),
        ];
        assert_eq!(machine(&limited), Some(256 * MIB));
    }

    proptest! {
        #[test]
        fn whatever_the_system_says_is_no_panic(text in "(?s).{0,200}", groups in "([0-9]:[a-z,]{0,8}:[/a.]{0,9}\n){0,4}") {
            machine_bytes(&|path| Some(if path.ends_with("cgroup") { groups.clone() } else { text.clone() }));
        }
    }

    #[test]
    fn a_use_over_its_share_is_refused_by_name_and_what_is_dropped_is_free_again() {
        let budget = MemoryBudget::new(800 * MIB);
        assert_eq!(budget.limit(MemoryUse::Query), 200 * MIB);
        let mut first = budget.charge(MemoryUse::Query, 150 * MIB).unwrap();
        let refused = budget.charge(MemoryUse::Query, 51 * MIB).unwrap_err();
        let text = refused.to_string();
        for part in ["query", "memory_bytes_max", &(201 * MIB).to_string()] {
            assert!(text.contains(part), "{text}");
        }
        assert!(first.grow(51 * MIB).is_err());
        assert_eq!((first.bytes(), budget.refused()), (150 * MIB, 2));
        first.grow(50 * MIB).unwrap();
        assert_eq!(budget.used(MemoryUse::Query), 200 * MIB);
        drop(first);
        assert_eq!(budget.used(MemoryUse::Query), 0);
    }

    #[test]
    fn all_uses_together_stay_within_the_total_and_the_cache_gives_way() {
        let budget = MemoryBudget::new(800 * MIB);
        budget.report(MemoryUse::Head, 200 * MIB);
        let index = budget.charge(MemoryUse::Index, 400 * MIB).unwrap();
        assert_eq!(budget.limit(MemoryUse::Cache), 200 * MIB);
        let query = budget.charge(MemoryUse::Query, 150 * MIB).unwrap();
        assert_eq!(budget.limit(MemoryUse::Cache), 50 * MIB);
        assert!(budget.charge(MemoryUse::Cache, 51 * MIB).is_err());
        assert!(budget.charge(MemoryUse::Compaction, 51 * MIB).is_err());
        let cache = budget.charge(MemoryUse::Cache, 50 * MIB).unwrap();
        budget.charge(MemoryUse::Compaction, 50 * MIB).unwrap();
        drop((index, query, cache));
        assert_eq!(budget.limit(MemoryUse::Index), 400 * MIB);
    }

    #[test]
    fn threads_that_charge_at_once_never_pass_the_share() {
        let budget = MemoryBudget::new(64 * MIB);
        let limit = budget.limit(MemoryUse::Compaction);
        let (held_by_all, refusals) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut held = Vec::new();
                    for _ in 0..10_000 {
                        if let Ok(charge) = budget.charge(MemoryUse::Compaction, MIB) {
                            let before = held_by_all.fetch_add(MIB, Ordering::SeqCst);
                            assert!(before + MIB <= limit);
                            held.push(charge);
                        } else {
                            refusals.fetch_add(1, Ordering::SeqCst);
                            held_by_all.fetch_sub(held.len() as u64 * MIB, Ordering::SeqCst);
                            held.clear();
                        }
                    }
                    held_by_all.fetch_sub(held.len() as u64 * MIB, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(budget.used(MemoryUse::Compaction), 0);
        assert_eq!(budget.refused(), refusals.into_inner());
    }
}
