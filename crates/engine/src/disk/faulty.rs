//! A disk that keeps exactly what it promised and nothing else.
//!
//! Does: remember, for each file, the synced bytes and the writes since, and for each folder the synced names and the
//! changes since; end the machine's life at a chosen call; then build the disk that a power cut may leave: every
//! unsynced write is kept, lost or torn at sectors, in any combination, and every unsynced name change is kept or
//! lost on its own. Fails chosen syncs the way Linux does: the pages count as clean afterwards, so a second sync
//! returns `Ok` while some of the bytes are gone. Does not: model time or bit rot.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::memory::{fitting, lock, read_from, write_into};
use super::{Disk, DiskFile, DiskLock};
use crate::ranked::{Mutex, Rank};

/// Smallest unit that a device writes whole.
const SECTOR_BYTES: usize = 512;

/// What goes wrong, counted in changing calls (writes, syncs, creations, renames, removals) since the plan was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrashPlan {
    /// The call at which the power goes; it and every later call fail, reads included.
    pub crash_at: Option<u64>,
    /// Calls that fail with an I/O error when they are syncs; other kinds of calls pass.
    pub fail_sync_at: Vec<u64>,
    /// Calls that fail with "no space left on device" when they are writes or creations.
    pub fail_write_at: Vec<u64>,
    /// Write only a part at every n-th write call; 0 = never.
    pub short_write_every: u64,
}

/// The disk under test; clones share it.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    plan: CrashPlan,
    calls: u64,
    failures: u64,
    crashed: bool,
    next_inode: u64,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    /// Names that survive for certain.
    durable_names: BTreeMap<PathBuf, u64>,
    /// Name changes since their folder's last sync, in order.
    pending_names: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    /// Bytes that all files together may hold.
    capacity: u64,
    random: u64,
}

#[derive(Debug, Clone)]
struct NameChange {
    removed: Option<PathBuf>,
    added: Option<(PathBuf, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    /// What a read in this life sees.
    current: Vec<u8>,
    /// What a power cut leaves for certain.
    durable: Vec<u8>,
    /// Writes that a sync has not covered, in order.
    pending: Vec<(u64, Vec<u8>)>,
}

impl FaultyDisk {
    /// An empty disk; `seed` drives what survives of unsynced changes.
    pub fn new(seed: u64, plan: CrashPlan) -> Self {
        Self {
            state: Arc::new(Mutex::new(
                Rank::Disk,
                State {
                    plan,
                    calls: 0,
                    failures: 0,
                    crashed: false,
                    next_inode: 1,
                    inodes: BTreeMap::new(),
                    names: BTreeMap::new(),
                    durable_names: BTreeMap::new(),
                    pending_names: Vec::new(),
                    locks: BTreeSet::new(),
                    capacity: u64::MAX,
                    random: seed | 1,
                },
            )),
        }
    }

    /// Another plan from here on; calls and failures are counted afresh. A disk that has crashed stays so.
    pub fn set_plan(&self, plan: CrashPlan) {
        let mut state = lock(&self.state);
        state.plan = plan;
        state.calls = 0;
        state.failures = 0;
    }

    /// Lets all files together hold this many bytes, in this life and the next ones. Bytes that are there already
    /// stay, even if they are more.
    pub fn set_capacity(&self, bytes: u64) {
        lock(&self.state).capacity = bytes;
    }

    /// Changing calls since the plan was given.
    pub fn calls(&self) -> u64 {
        lock(&self.state).calls
    }

    /// Calls that the plan made fail, the crash and short writes aside.
    pub fn failures(&self) -> u64 {
        lock(&self.state).failures
    }

    /// Whether the planned crash has happened.
    pub fn crashed(&self) -> bool {
        lock(&self.state).crashed
    }

    /// The disk as a power cut leaves it at this moment, with a new plan for its next life. Everything on it
    /// is durable.
    #[must_use]
    pub fn after_power_cut(&self, seed: u64, plan: CrashPlan) -> Self {
        let old = lock(&self.state);
        let mut random = Random(old.random ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let names = surviving_names(&old, &mut random);
        let mut inodes = BTreeMap::new();
        for &inode in names.values() {
            // A file may have several names, and one fate.
            if let (Some(file), Entry::Vacant(place)) =
                (old.inodes.get(&inode), inodes.entry(inode))
            {
                place.insert(settled(surviving_bytes(file, &mut random)));
            }
        }
        let rest = Rest {
            next_inode: old.next_inode,
            capacity: old.capacity,
        };
        drop(old);
        Self::settled_disk(names, inodes, &rest, random.next(), plan)
    }

    /// The disk as a process that died leaves it: the kernel still has every write, so nothing is lost, but
    /// nothing more is durable than before either.
    #[must_use]
    pub fn after_kill(&self, plan: CrashPlan) -> Self {
        let old = lock(&self.state);
        Self {
            state: Arc::new(Mutex::new(
                Rank::Disk,
                State {
                    plan,
                    calls: 0,
                    failures: 0,
                    crashed: false,
                    next_inode: old.next_inode,
                    inodes: old.inodes.clone(),
                    names: old.names.clone(),
                    durable_names: old.durable_names.clone(),
                    pending_names: old.pending_names.clone(),
                    locks: BTreeSet::new(),
                    capacity: old.capacity,
                    random: old.random,
                },
            )),
        }
    }

    fn settled_disk(
        names: BTreeMap<PathBuf, u64>,
        inodes: BTreeMap<u64, Inode>,
        rest: &Rest,
        random: u64,
        plan: CrashPlan,
    ) -> Self {
        Self {
            state: Arc::new(Mutex::new(
                Rank::Disk,
                State {
                    plan,
                    calls: 0,
                    failures: 0,
                    crashed: false,
                    next_inode: rest.next_inode,
                    inodes,
                    durable_names: names.clone(),
                    names,
                    pending_names: Vec::new(),
                    locks: BTreeSet::new(),
                    capacity: rest.capacity,
                    random: random | 1,
                },
            )),
        }
    }
}

/// What a power cut leaves as it is.
struct Rest {
    next_inode: u64,
    capacity: u64,
}

fn settled(bytes: Vec<u8>) -> Inode {
    Inode {
        current: bytes.clone(),
        durable: bytes,
        pending: Vec::new(),
    }
}

/// Each pending change survives with one chance in two, on its own; a rename keeps or loses both its halves.
fn surviving_names(state: &State, random: &mut Random) -> BTreeMap<PathBuf, u64> {
    let mut names = state.durable_names.clone();
    for change in &state.pending_names {
        if random.next() & 1 == 0 {
            continue;
        }
        if let Some(removed) = &change.removed {
            names.remove(removed);
        }
        if let Some((added, inode)) = &change.added {
            names.insert(added.clone(), *inode);
        }
    }
    names
}

/// Each pending write is kept, lost, or torn into sectors of which any subset survives.
fn surviving_bytes(file: &Inode, random: &mut Random) -> Vec<u8> {
    let mut bytes = file.durable.clone();
    for (offset, data) in &file.pending {
        match random.next() % 4 {
            0 => {}
            1 => write_into(&mut bytes, data, *offset),
            _ => {
                // Sectors are aligned in the file, not in the write.
                let mut at = 0;
                while at < data.len() {
                    let position = *offset + at as u64;
                    let to_edge = SECTOR_BYTES - usize::try_from(position % 512).unwrap_or(0);
                    let end = (at + to_edge).min(data.len());
                    if random.next() & 1 == 1 {
                        write_into(&mut bytes, data.get(at..end).unwrap_or_default(), position);
                    }
                    at = end;
                }
            }
        }
    }
    bytes
}

/// xorshift64*: small, seeded, and the same on every machine.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
}

/// Kinds of changing calls, for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
    Name,
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.crashed {
            return Err(io::Error::other("simulated power cut"));
        }
        Ok(())
    }

    /// Bytes that files may still grow by.
    fn free(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let inodes: BTreeSet<u64> = self.names.values().copied().collect();
        let files = inodes.iter().filter_map(|inode| self.inodes.get(inode));
        let used: u64 = files.map(|file| file.current.len() as u64).sum();
        self.capacity.saturating_sub(used)
    }

    /// Counts a changing call and applies the plan to it.
    fn count(&mut self, call: Call) -> io::Result<()> {
        self.alive()?;
        self.calls += 1;
        if self.plan.crash_at == Some(self.calls) {
            self.crashed = true;
            return self.alive();
        }
        if call == Call::Sync && self.plan.fail_sync_at.contains(&self.calls) {
            self.failures += 1;
            return Err(io::Error::other("simulated sync failure"));
        }
        if call == Call::Write && self.plan.fail_write_at.contains(&self.calls) {
            self.failures += 1;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.count(Call::Write)?;
        if state.names.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.names.insert(path.to_owned(), inode);
        state.pending_names.push(NameChange {
            removed: None,
            added: Some((path.to_owned(), inode)),
        });
        Ok(self.file(inode))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = lock(&self.state);
        state.alive()?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(inode))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        state.alive()?;
        Ok(state
            .names
            .keys()
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect())
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        lock(&self.state).alive()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count(Call::Name)?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.pending_names.push(NameChange {
            removed: Some(from.to_owned()),
            added: Some((to.to_owned(), inode)),
        });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count(Call::Name)?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        if state.names.contains_key(to) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.names.insert(to.to_owned(), inode);
        state.pending_names.push(NameChange {
            removed: None,
            added: Some((to.to_owned(), inode)),
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.count(Call::Name)?;
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameChange {
            removed: Some(path.to_owned()),
            added: None,
        });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let failed = state.count(Call::Sync);
        state.alive()?;
        let (synced, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending_names)
            .into_iter()
            .partition(|change| {
                let path = change.added.as_ref().map(|(path, _)| path);
                path.or(change.removed.as_ref())
                    .is_some_and(|path| path.parent() == Some(dir))
            });
        state.pending_names = kept;
        let mut random = Random(state.random);
        for change in synced {
            // After a failure this life sees every change, the device has some of them, and no later sync adds more.
            if failed.is_err() && random.next() & 1 == 0 {
                continue;
            }
            if let Some(removed) = change.removed {
                state.durable_names.remove(&removed);
            }
            if let Some((added, inode)) = change.added {
                state.durable_names.insert(added, inode);
            }
        }
        state.random = random.0;
        failed
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = lock(&self.state);
        state.alive()?;
        if !state.locks.insert(path.to_owned()) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        Ok(Box::new(FaultyLock {
            state: Arc::clone(&self.state),
            path: path.to_owned(),
        }))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = lock(&self.state);
        state.alive()?;
        Ok(state.free())
    }

    fn total_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = lock(&self.state);
        state.alive()?;
        Ok(state.capacity)
    }
}

impl FaultyDisk {
    fn file(&self, inode: u64) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile {
            state: Arc::clone(&self.state),
            inode,
        })
    }
}

#[derive(Debug)]
struct FaultyLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl DiskLock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        lock(&self.state).locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct FaultyFile {
    state: Arc<Mutex<State>>,
    inode: u64,
}

impl FaultyFile {
    fn with<T>(&self, state: &mut State, act: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let inode = state.inodes.get_mut(&self.inode);
        Ok(act(inode.ok_or(io::ErrorKind::NotFound)?))
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = lock(&self.state);
        state.alive()?;
        self.with(&mut state, |file| read_from(&file.current, buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = lock(&self.state);
        let counted = state.count(Call::Write);
        let every = state.plan.short_write_every;
        let short = every > 0 && state.calls.is_multiple_of(every) && buf.len() > 1;
        let n = if short { buf.len() / 2 } else { buf.len() };
        let free = state.free();
        let size = self.with(&mut state, |file| file.current.len() as u64)?;
        let n = fitting(size, n, offset, free)?;
        let data = buf.get(..n).unwrap_or_default();
        if counted.is_ok() || state.crashed {
            // A write that the crash interrupts may have reached the device in part.
            self.with(&mut state, |file| {
                write_into(&mut file.current, data, offset);
                file.pending.push((offset, data.to_vec()));
            })?;
        }
        counted.map(|()| n)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let counted = state.count(Call::Sync);
        state.alive()?;
        let mut random = Random(state.random);
        self.with(&mut state, |file| {
            if counted.is_err() {
                // The pages are marked clean: the cache shows them, and the device has what part of them it took.
                file.durable = surviving_bytes(file, &mut random);
                file.pending.clear();
            }
            for (offset, data) in std::mem::take(&mut file.pending) {
                write_into(&mut file.durable, &data, offset);
            }
        })?;
        state.random = random.0;
        counted
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.alive()?;
        self.with(&mut state, |file| file.current.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(disk: &FaultyDisk) -> Vec<String> {
        disk.list(Path::new("/d")).unwrap()
    }

    #[test]
    fn a_link_survives_for_certain_only_after_its_folder_is_synced() {
        let (from, to) = (Path::new("/d/a"), Path::new("/d/b"));
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let disk = FaultyDisk::new(seed, CrashPlan::default());
            let file = disk.create(from).unwrap();
            file.write_at(b"bytes", 0).unwrap();
            file.sync().unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            disk.link(from, to).unwrap();
            let cut = disk.after_power_cut(seed, CrashPlan::default());
            seen.insert(names(&cut).len());
            disk.sync_dir(Path::new("/d")).unwrap();
            disk.remove(from).unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            let cut = disk.after_power_cut(seed, CrashPlan::default());
            assert_eq!(names(&cut), ["b"]);
            assert_eq!(cut.open(to).unwrap().size().unwrap(), 5);
        }
        assert_eq!(seen, BTreeSet::from([1, 2]));
    }

    #[test]
    fn two_names_of_one_file_keep_the_same_bytes_in_a_power_cut() {
        for seed in 0..64 {
            let disk = FaultyDisk::new(seed, CrashPlan::default());
            let file = disk.create(Path::new("/d/a")).unwrap();
            disk.link(Path::new("/d/a"), Path::new("/d/b")).unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            file.write_at(&[7; 5000], 0).unwrap();
            let cut = disk.after_power_cut(seed, CrashPlan::default());
            let read = |name: &str| {
                let file = cut.open(&Path::new("/d").join(name)).unwrap();
                let mut bytes = vec![0; 6000];
                let n = file.read_at(&mut bytes, 0).unwrap();
                bytes.truncate(n);
                bytes
            };
            assert_eq!(read("a"), read("b"), "seed {seed}");
        }
    }

    #[test]
    fn a_capacity_holds_in_the_next_life_and_removing_makes_room() {
        let disk = FaultyDisk::new(1, CrashPlan::default());
        disk.set_capacity(1000);
        let file = disk.create(Path::new("/d/a")).unwrap();
        assert_eq!(file.write_at(&[1; 1500], 0).unwrap(), 1000);
        let full = file.write_at(&[1], 1000).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let next = disk.after_kill(CrashPlan::default());
        assert_eq!(next.free_bytes(Path::new("/d")).unwrap(), 0);
        next.remove(Path::new("/d/a")).unwrap();
        assert_eq!(next.free_bytes(Path::new("/d")).unwrap(), 1000);
    }
}
