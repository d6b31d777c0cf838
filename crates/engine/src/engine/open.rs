//! Opening a store: lock, manifest, definitions, index files, segments, log, in this order.

use std::path::Path;
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::clock::{Clock, SystemClock};
use crate::compaction::order;
use crate::definitions_file::read_definitions;
use crate::disk::{Disk, RealDisk};
use crate::engine::change::relations::read_relations;
use crate::engine::copies::Backups;
use crate::engine::copies::backup::{
    check_log_end, check_marker, clear_staged, keep_one_log, remove_marker,
};
use crate::engine::copies::restore::{RestoreReport, restore};
use crate::engine::maintain::Jobs;
use crate::engine::repair::Repair;
use crate::engine::repair::damaged::Quarantined;
use crate::engine::repair::quarantine::{Quarantine, put_log_aside};
use crate::engine::repair::salvage_segment::{Repaired, aside_before};
use crate::engine::repair::verify::{Verified, verify};
use crate::engine::sequencer::{Recovered, Sequencer};
use crate::engine::site::Site;
use crate::engine::watch::memory::{Replay, Replayed, Round};
use crate::engine::{Engine, Unfinished};
use crate::error::Error;
use crate::head::Head;
use crate::idempotency::KeySet;
use crate::index::{BlockCache, Index};
use crate::layout::{
    LOCK_FILE, is_file_name, lock_dir, log_options, segment_dir, segment_name, side_name,
};
use crate::log::{self, Log};
use crate::manifest::{FileKind, Manifest};
use crate::options::{OnDamage, Options};
use crate::replay_workers::{Ahead, ReplayWorkers};
use crate::sabotage;
use crate::segment::{Segment, SegmentCache};
use crate::state::Version;

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
    pub fn open_with(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: Options,
        lent: &ReplayWorkers,
    ) -> Result<Self, Error> {
        let mut ahead = Ahead::new(lent);
        let disk = sabotage::between(disk, options.sabotage);
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
        let (uuid, all) = (manifest.uuid(), Arc::clone(&disk));
        let site = Arc::new(Site::new(all, clock, dir, uuid, options, lock));
        let (options, clock, disk_ref) = (site.options(), site.clock(), disk.as_ref());
        let mut catalogue = Catalogue::new(options.sabotage);
        let names = (disk_ref, segment_dir.as_path());
        let mut quarantine = Quarantine::new(disk_ref, dir, options.on_damage);
        let kept = &mut (&mut catalogue, &mut quarantine);
        read_names(names, &manifest, site.index_cache(), kept)
            .map_err(|error| manifest.blame(error))?;
        let segments = open_segments(
            site.segment_cache(),
            &segment_dir,
            &manifest,
            &mut quarantine,
        )
        .map_err(|error| manifest.blame(error))?;

        let unordered = order::unordered(&segments, |_| true);
        let mut keys = KeySet::new(options, clock);
        let mut relations = read_keys(&segment_dir, &manifest, &mut keys, &mut quarantine)
            .and_then(|()| read_relations(disk_ref, &segment_dir, &manifest))
            .map_err(|error| manifest.blame(error))?
            .sabotaged(options.sabotage);
        prepare_log(disk_ref, clock, dir, options, &manifest)?;
        let head = Head::default();
        let mut unfiled = Vec::new();
        let mut round = Round::new(site.budget());
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
            log_options(options),
            &mut replay,
        )
        .map_err(|error| manifest.blame(error))?;
        check_log_end(dir, &manifest.contents, replayed.last_lsn)?;
        // Only now that everything listed was found in order, or found damaged, may anything be thrown away.
        quarantine.put_aside(&mut manifest, &catalogue, clock.now_ns())?;
        let live = log.live_numbers();
        let quarantined = clear_away(disk_ref, dir, &mut manifest, quarantine, &live)?;
        let applied = round.applied.max(manifest.contents.flushed_lsn);
        let recovered = Recovered {
            catalogue,
            keys,
            relations,
            version: Version::new(0, segments, &manifest.contents),
            head,
            unfiled,
            applied,
            log_bytes: round.log_bytes,
        };
        let sequencer = Arc::new(Sequencer::new(Arc::clone(&site), log, recovered));
        let jobs = Arc::new(Jobs::new(
            Arc::clone(&site),
            Arc::clone(&sequencer),
            manifest,
            unordered,
            !quarantined.is_empty(),
        ));
        let shared = || (Arc::clone(&site), Arc::clone(&sequencer), Arc::clone(&jobs));
        let mut repair = Repair::new(shared(), quarantined);
        jobs.replay_rest(applied, replayed.last_lsn, &mut ahead)?;
        drop(ahead);
        sequencer.report_index();
        repair.mend_opened()?;
        let unfinished = Unfinished::of(&sequencer.catalogue());
        let engine = Self {
            backups: Backups::new(shared()),
            repair,
            jobs,
            sequencer,
            locks: Arc::default(),
            unfinished,
            site,
        };
        engine.load_aggregates();
        Ok(engine)
    }

    /// Opens the store in `dir` on the machine's disk, or starts one if the folder is empty or absent.
    pub fn open_dir(dir: &Path, options: Options) -> Result<Self, Error> {
        Self::open(Arc::new(RealDisk), Arc::new(SystemClock), dir, options)
    }

    /// Reads every checksum of the store in `dir` on the machine's disk, which nobody may have open. An `Err` means that it
    /// could not be looked at, for one because its manifest is damaged.
    pub fn verify_dir(dir: &Path) -> Result<Verified, Error> {
        Self::verify(&(Arc::new(RealDisk) as Arc<dyn Disk>), dir)
    }

    /// Reads every checksum of the store in `dir`.
    pub fn verify(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Verified, Error> {
        verify(disk, dir)
    }

    /// Restores a backup on the machine's disk into `dest`, an empty or absent folder.
    pub fn restore_dir(backup: &Path, dest: &Path) -> Result<RestoreReport, Error> {
        Self::restore(&(Arc::new(RealDisk) as Arc<dyn Disk>), backup, dest)
    }

    /// Restores a backup into `dest`, an empty or absent folder. Until this returns `Ok` there is no store in `dest`;
    /// after an error the folder can be thrown away.
    pub fn restore(
        disk: &Arc<dyn Disk>,
        backup: &Path,
        dest: &Path,
    ) -> Result<RestoreReport, Error> {
        restore(disk, backup, dest)
    }

    /// Repairs the store in `dir` on the machine's disk, which nobody may have open. A store in order is not touched.
    pub fn repair_dir(dir: &Path) -> Result<Repaired, Error> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        Self::repair(&disk, Arc::new(SystemClock), dir, Options::default())
    }

    /// Repairs the store in `dir`. After an error the store is as it was, or is repaired in part, and can be repaired again.
    pub fn repair(
        disk: &Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: Options,
    ) -> Result<Repaired, Error> {
        let Verified { damage: found, .. } = verify(disk, dir)?;
        if found.is_empty() {
            return Ok(Repaired::default());
        }
        let options = Options {
            on_damage: OnDamage::Quarantine,
            on_log_damage: OnDamage::Quarantine,
            ..options
        };
        let began_ns = clock.now_ns();
        let known = aside_before(disk.as_ref(), dir);
        let engine = Self::open(Arc::clone(disk), clock, dir, options)?;
        let put_aside = engine.repair.repair_all(began_ns, &known)?;
        engine.close()?;
        drop(engine);
        let Verified { damage: left, .. } = verify(disk, dir)?;
        Ok(Repaired {
            found,
            put_aside,
            left,
        })
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
