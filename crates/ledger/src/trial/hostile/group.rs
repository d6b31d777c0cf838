//! A control group whose processes may have so much memory together, and what they had.
//!
//! Does: make a group under the one that this process is in, of either version, and remove it. Does not: limit this
//! process, or pass over a machine that does not let us; the error says why.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a version of control groups calls its files.
#[derive(Debug, Clone, Copy)]
struct Names {
    root: &'static str,
    limit: &'static str,
    /// The same with swap; it is not there where nothing is swapped.
    limit_with_swap: (&'static str, Swap),
    peak: &'static str,
    /// A line with the number of processes that were killed for want of memory.
    kills: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Swap {
    /// The file takes the swap alone: none.
    Alone,
    /// The file takes memory and swap together.
    Together,
}

const SECOND: Names = Names {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    limit_with_swap: ("memory.swap.max", Swap::Alone),
    peak: "memory.peak",
    kills: "memory.events",
};
const FIRST: Names = Names {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    limit_with_swap: ("memory.memsw.limit_in_bytes", Swap::Together),
    peak: "memory.max_usage_in_bytes",
    kills: "memory.oom_control",
};

/// A group, removed when dropped; by then its processes must have ended.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    names: Names,
}

impl Group {
    /// Makes a group that may have so many bytes.
    pub(super) fn new(bytes: u64) -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let names = match controllers {
                "" => SECOND,
                "memory" => FIRST,
                _ => continue,
            };
            let parent = Path::new(names.root).join(path.trim_start_matches('/'));
            let folder = parent.join(format!("nilometer-ledger-{}", std::process::id()));
            match fs::create_dir(&folder).map(|()| Self { folder, names }) {
                Ok(group) => match group.limit(bytes) {
                    Ok(()) => return Ok(group),
                    Err(e) => last = e,
                },
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn limit(&self, bytes: u64) -> io::Result<()> {
        // Without the controller there is a folder, but no file; writing must not make one.
        fs::metadata(self.folder.join(self.names.limit))?;
        fs::write(self.folder.join(self.names.limit), bytes.to_string())?;
        let (file, swap) = self.names.limit_with_swap;
        let file = self.folder.join(file);
        if file.exists() {
            let bytes = match swap {
                Swap::Alone => 0,
                Swap::Together => bytes,
            };
            fs::write(file, bytes.to_string())?;
        }
        Ok(())
    }

    /// A program that goes into the group and becomes `program`, so that it is limited from its first moment on.
    pub(super) fn wrap(&self, program: &Path, script: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let text = format!(
            "#!/bin/sh\necho $$ > '{}/cgroup.procs' && exec '{}' \"$@\"\n",
            self.folder.display(),
            program.display()
        );
        fs::write(script, text)?;
        fs::set_permissions(script, fs::Permissions::from_mode(0o700))
    }

    /// The most memory that it had at one time, with what the kernel keeps of files for it.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.names.peak)).ok()?;
        text.trim().parse().ok()
    }

    /// How many of its processes the kernel has killed for want of memory; an older kernel does not say.
    pub(super) fn kills(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.names.kills)).ok()?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))?;
        value.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.folder));
    }
}
