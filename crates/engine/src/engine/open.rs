//! Opening a store: lock, manifest, definitions, index files, segments, log, in this order.

use std::path::Path;
use std::sync::Arc;

use super::{
    Counters, Engine, Jobs, OnDamage, Options, Quarantined, Sequencer, SharedCatalogue, Version,
    Versions,
};
use crate::budget::MemoryBudget;
use crate::catalogue::{Catalogue, Entries};
use crate::clock::Clock;
use crate::compaction::order;
use crate::definitions_file::read_definitions;
use crate::disk::Disk;
use crate::engine::change::relations::read_relations;
use crate::engine::copies::backup::{
    check_log_end, check_marker, clear_staged, keep_one_log, remove_marker,
};
use crate::engine::maintain::flush::Maintained;
use crate::engine::repair::quarantine::{Quarantine, put_log_aside};
use crate::engine::repair::scrub;
use crate::engine::watch::memory::{Replay, Replayed, Round, fit};
use crate::engine::watch::space::Space;
use crate::error::Error;
use crate::head::Head;
use crate::idempotency::KeySet;
use crate::index::{BlockCache, Index};
use crate::ingest::SeriesMemo;
use crate::layout::{
    LOCK_FILE, is_file_name, lock_dir, log_options, segment_dir, segment_name, side_name,
};
use crate::log::{self, Log};
use crate::manifest::{FileKind, Manifest};
use crate::ranked::{Mutex, Rank, RwLock};
use crate::relation::Pins;
use crate::replay_workers::{Ahead, ReplayWorkers};
use crate::retention::Retention;
use crate::sabotage;
use crate::segment::{Segment, SegmentCache};

const KNOWN_FILES: [&str; 3] = [LOCK_FILE, "manifest", "manifest.tmp"];

impl Engine {
    /// Opens the store in `dir`, or starts one if the folder is empty or absent. Whatever crash came before, an
    /// acknowledged batch is there afterwards, whole and once; no repair by hand is needed.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: Options,
    ) -> Result<Self, Error> {
        Self::open_with(disk, clock, dir, options, &ReplayWorkers::default())
    }

    /// The same with the help of threads that the caller lends: a log is replayed in the time that its decoding takes,
    /// divided by them. They are given back before this returns.
    #[expect(
        clippy::too_many_lines,
        reason = "one step after another, and then every field of the store once"
    )]
    pub fn open_with(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        mut options: Options,
        lent: &ReplayWorkers,
    ) -> Result<Self, Error> {
        let mut ahead = Ahead::new(lent);
        let disk = sabotage::between(disk, options.sabotage);
        let budget = MemoryBudget::new(options.memory_bytes_max);
        fit(&mut options, &budget);
        let log_dir = Log::dir_of(dir);
        let segment_dir = segment_dir(dir);
        disk.create_dir_all(dir).map_err(Error::io("create", dir))?;
        let lock = lock_dir(disk.as_ref(), dir)?;
        let mut manifest = open_manifest(disk.as_ref(), dir)?;
        check_marker(disk.as_ref(), dir)?;
        for folder in [&log_dir, &segment_dir] {
            disk.create_dir_all(folder)
                .map_err(Error::io("create", folder))?;
        }
        disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
        let mut catalogue = Catalogue::new(options.sabotage);
        let index_cache = Arc::new(BlockCache::new(options.index_cache_bytes_max, &budget));
        let names = (disk.as_ref(), segment_dir.as_path());
        let cache = SegmentCache::new(Arc::clone(&disk), budget.clone(), &options);
        let segment_cache = Arc::new(cache);
        let mut quarantine = Quarantine::new(disk.as_ref(), dir, options.on_damage);
        let kept = &mut (&mut catalogue, &mut quarantine);
        read_names(names, &manifest, &index_cache, kept).map_err(|error| manifest.blame(error))?;
        let segments = open_segments(&segment_cache, &segment_dir, &manifest, &mut quarantine)
            .map_err(|error| manifest.blame(error))?;

        let unordered = order::unordered(&segments, |_| true);
        let mut keys = KeySet::new(&options, clock.as_ref());
        let mut relations = read_keys(&segment_dir, &manifest, &mut keys, &mut quarantine)
            .and_then(|()| read_relations(disk.as_ref(), &segment_dir, &manifest))
            .map_err(|error| manifest.blame(error))?
            .sabotaged(options.sabotage);
        prepare_log(disk.as_ref(), clock.as_ref(), dir, &options, &manifest)?;
        let head = Head::default();
        let mut unfiled = Vec::new();
        let mut round = Round::new(&budget);
        let mut replay = Replay {
            round: &mut round,
            to: Replayed {
                catalogue: &mut catalogue,
                relations: &mut relations,
                keys: &mut keys,
                head: &head,
                unfiled: &mut unfiled,
            },
            ahead: &mut ahead,
        };
        let (log, replayed) = Log::open(
            Arc::clone(&disk),
            log_dir,
            manifest.uuid(),
            manifest.contents.flushed_lsn,
            log_options(&options),
            &mut replay,
        )
        .map_err(|error| manifest.blame(error))?;
        check_log_end(dir, &manifest.contents, replayed.last_lsn)?;
        // Only now that everything listed was found in order, or found damaged, may anything be thrown away.
        quarantine.put_aside(&mut manifest, &catalogue, clock.now_ns())?;
        let live = log.live_numbers();
        let quarantined = clear_away(disk.as_ref(), dir, &mut manifest, quarantine, &live)?;
        let counters = Counters::default();
        counters
            .log_bytes
            .store(round.log_bytes, std::sync::atomic::Ordering::Relaxed);
        let space = Space::new(disk.as_ref(), dir, &options);
        let applied = round.applied.max(manifest.contents.flushed_lsn);
        let clock_ns = manifest.contents.clock_ns;
        let (scrub, scrubbed) = scrub::begin(disk.as_ref(), dir, manifest.uuid());
        let mut engine = Self {
            uuid: manifest.uuid(),
            dir: dir.to_owned(),
            memo: RwLock::new(Rank::Memo, SeriesMemo::new(options.memo_bytes_max)),
            options,
            log,
            segment_cache,
            index_cache,
            names: SharedCatalogue::new(catalogue),
            sequencer: Mutex::new(
                Rank::Sequencer,
                Sequencer {
                    next_lsn: applied + 1,
                    unlogged: Entries::default(),
                    unfiled,
                },
            ),
            versions: Versions::new(Version::new(0, segments, &manifest.contents), head),
            flushing: Mutex::new(Rank::Flushing, ()),
            jobs: Mutex::new(
                Rank::Jobs,
                Jobs {
                    next_file_id: manifest.contents.next_file_id,
                    ..Jobs::default()
                },
            ),
            manifest: Mutex::new(Rank::Manifest, manifest),
            keys: Mutex::new(Rank::Keys, keys),
            retention: Mutex::new(
                Rank::Retention,
                Retention::new(clock_ns, clock.monotonic_ms()),
            ),
            relations: RwLock::new(Rank::Relations, relations),
            pins: Pins::default(),
            replaced: Mutex::new(Rank::Replaced, Vec::new()),
            counters,
            space,
            budget,
            quarantined,
            unordered,
            mended: Mutex::new(Rank::Mended, Vec::new()),
            indexing: Mutex::new(Rank::Indexing, ()),
            backups: Mutex::new(Rank::Backup, ()),
            scrub,
            scrubbed,
            disk,
            clock,
            _lock: lock,
        };
        engine.replay_rest(applied, replayed.last_lsn, &mut ahead)?;
        drop(ahead);
        engine.report_index();
        engine.renew_index_files()?;
        // What was read in place of what is damaged will do if there is no room to mend it now.
        while let Ok(Maintained::Indexed { .. }) = engine.mend_index() {}
        let mended = std::mem::take(&mut *engine.mended.lock());
        engine.quarantined.extend(mended);
        Ok(engine)
    }
}

/// Makes the manifest hold, and removes what it does not list; returns what was put aside.
fn clear_away(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &mut Manifest,
    quarantine: Quarantine<'_>,
    live: &[u64],
) -> Result<Vec<Quarantined>, Error> {
    remove_marker(disk, dir)?;
    manifest.contents.backup_log = None;
    manifest.rewrite(disk)?;
    quarantine.remove_first_names()?;
    let quarantined = quarantine.list(manifest, live)?;
    clear_staged(disk, dir)?;
    remove_orphans(disk, &segment_dir(dir), manifest, &quarantined)?;
    Ok(quarantined)
}

/// Takes what does not count from a backup's log. Ends a damaged log of a store before the damage, after what is given up
/// was put aside, if that is what shall be done.
fn prepare_log(
    disk: &dyn Disk,
    clock: &dyn Clock,
    dir: &Path,
    options: &Options,
    manifest: &Manifest,
) -> Result<(), Error> {
    if manifest.contents.backup_log.is_some() {
        return keep_one_log(disk, dir, &manifest.contents);
    }
    // With an edit missing, what the log lacks may be the manifest's fault, and nothing may be given up for it.
    if options.on_log_damage == OnDamage::Refuse || manifest.is_cut() {
        return Ok(());
    }
    let log_dir = Log::dir_of(dir);
    let (uuid, flushed) = (manifest.uuid(), manifest.contents.flushed_lsn);
    match log::find_hole(disk, &log_dir, uuid, flushed)? {
        Some(hole) => {
            put_log_aside(disk, dir, &hole, clock.now_ns())?;
            log::end_before(disk, &log_dir, uuid, flushed, &hole)
        }
        None => Ok(()),
    }
}

fn open_manifest(disk: &dyn Disk, dir: &Path) -> Result<Manifest, Error> {
    let names = disk.list(dir).map_err(Error::io("list", dir))?;
    if Manifest::exists(&names) {
        return Manifest::open(disk, dir);
    }
    // A store without its manifest, or somebody else's folder: starting a new one inside would bury either.
    let stranger = names
        .iter()
        .find(|name| !KNOWN_FILES.contains(&name.as_str()) && *name != "lost+found");
    if let Some(stranger) = stranger {
        return Err(Error::NotAStore {
            path: dir.to_owned(),
            reason: format!("it has no manifest, but a \"{stranger}\""),
        });
    }
    Manifest::create(disk, dir, new_uuid())
}

/// Random, because a copied data directory must be told from its original by changing this.
fn new_uuid() -> [u8; 16] {
    // A hasher's keys are the standard library's only public source of randomness; they are from the system.
    use std::hash::{BuildHasher, Hasher, RandomState};
    let half = |salt: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(salt);
        hasher.finish()
    };
    let mut uuid = [0; 16];
    for (at, byte) in half(1)
        .to_le_bytes()
        .into_iter()
        .chain(half(2).to_le_bytes())
        .enumerate()
    {
        if let Some(slot) = uuid.get_mut(at) {
            *slot = byte;
        }
    }
    uuid
}

/// Files that a crash left before the manifest listed them.
fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    quarantined: &[Quarantined],
) -> Result<(), Error> {
    let contents = &manifest.contents;
    for name in disk.list(dir).map_err(Error::io("list", dir))? {
        let listed = contents
            .segments
            .iter()
            .any(|file| segment_name(file.file_id) == name)
            || contents
                .files
                .iter()
                .any(|file| side_name(file.kind, file.file_id) == name);
        let path = dir.join(&name);
        // A file that was put aside and is there again was put there by somebody, and is not ours to remove. Neither is
        // what has no name of ours.
        let returned = quarantined.iter().any(|it| it.file == path);
        if !listed && !returned && is_file_name(&name) {
            disk.remove(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Reads definitions and opens the index files, of which it reads no more than what says where things are.
fn read_names(
    (disk, dir): (&dyn Disk, &Path),
    manifest: &Manifest,
    cache: &Arc<BlockCache>,
    (catalogue, quarantine): &mut (&mut Catalogue, &mut Quarantine<'_>),
) -> Result<(), Error> {
    read_definitions(disk, dir, manifest, catalogue)?;
    let mut files = Vec::new();
    for file in manifest.contents.files_of(FileKind::Index) {
        let path = dir.join(side_name(FileKind::Index, file.file_id));
        let (uuid, id, cache) = (manifest.uuid(), file.file_id, Arc::clone(cache));
        let opened = Index::open(disk, &path, uuid, id, file.bytes, cache);
        match opened.and_then(|index| quarantine.admit(index)) {
            Ok(index) => files.push(Arc::new(index)),
            Err(error) => quarantine.side_file(manifest, file, error)?,
        }
    }
    catalogue.open_files(files, manifest.contents.next_series);
    Ok(())
}

fn read_keys(
    dir: &Path,
    manifest: &Manifest,
    keys: &mut KeySet,
    quarantine: &mut Quarantine<'_>,
) -> Result<(), Error> {
    for meta in manifest.contents.files_of(FileKind::Keys) {
        let path = dir.join(side_name(FileKind::Keys, meta.file_id));
        if let Err(error) = keys.read(quarantine.disk, &path, manifest.uuid(), meta) {
            quarantine.side_file(manifest, meta, error)?;
        }
    }
    keys.files_end_at(manifest.contents.flushed_lsn);
    Ok(())
}

fn open_segments(
    cache: &Arc<SegmentCache>,
    dir: &Path,
    manifest: &Manifest,
    quarantine: &mut Quarantine<'_>,
) -> Result<Vec<Arc<Segment>>, Error> {
    let mut segments = Vec::new();
    for meta in &manifest.contents.segments {
        let path = dir.join(segment_name(meta.file_id));
        match Segment::open(cache, path, manifest.uuid(), meta.clone()) {
            Ok(segment) => segments.push(Arc::new(segment)),
            Err(error) => quarantine.segment(manifest, meta, error)?,
        }
    }
    Ok(segments)
}
